const rows = JSON.parse(document.getElementById('rows').textContent);
const by = id => document.getElementById(id);
const fields = ['id','verdict','status','check','model','mode','attempt','steps','tokens','cost','duration','error'];
let order = 'id', down = false;
const el = (name, text, parent) => { const e = document.createElement(name); if (text !== undefined) e.textContent = text;
  if (parent) parent.appendChild(e); return e; };
for (const name of ['status', 'model', 'mode']) {
  const values = [...new Set(rows.map(r => String(r[name])))].sort();
  for (const value of values) { const o = el('option', value, by(name)); o.value = value; }
}
function chosen() {
  const text = by('text').value.toLowerCase(), verdict = by('verdict').value;
  return rows.filter(r => (!text || (r.id + ' ' + r.error).toLowerCase().includes(text))
    && (!verdict || r.verdict === verdict)
    && ['status', 'model', 'mode'].every(n => !by(n).value || String(r[n]) === by(n).value));
}
function plot(id, values, colour) {
  const svg = by(id), space = 'http://www.w3.org/2000/svg', most = Math.max(...values, 1e-9);
  svg.replaceChildren(); svg.setAttribute('viewBox', '0 0 1000 100'); svg.setAttribute('preserveAspectRatio', 'none');
  const line = document.createElementNS(space, 'polyline');
  line.setAttribute('points', values.map((v, i) =>
    (values.length > 1 ? i * 1000 / (values.length - 1) : 500) + ',' + (98 - 96 * v / most)).join(' '));
  line.setAttribute('fill', 'none'); line.setAttribute('stroke', colour); line.setAttribute('stroke-width', '2');
  line.setAttribute('vector-effect', 'non-scaling-stroke'); svg.appendChild(line);
}
function draw() {
  const found = chosen().sort((a, b) => (a[order] > b[order] ? 1 : a[order] < b[order] ? -1 : 0) * (down ? -1 : 1));
  const body = by('body'); body.replaceChildren();
  for (const r of found.slice(0, 2000)) {
    const tr = el('tr', undefined, body);
    for (const name of fields) {
      const td = el('td', name === 'id' ? undefined : String(r[name] ?? ''), tr);
      if (name === 'id') for (const [file, title] of [['record', r.id], ['patch', ' patch'], ['answer', ' answer']]) {
        if (!r[file]) { if (file === 'record') el('span', r.id, td); continue; }
        const a = el('a', title, td); a.href = encodeURI('./' + r[file]);
      }
      if (name === 'verdict') td.className = r.verdict === 'success' ? 'yes' : 'no';
      if (typeof r[name] === 'number') td.className = 'n';
    }
  }
  const well = found.filter(r => r.verdict === 'success').length, cost = found.reduce((s, r) => s + (r.cost || 0), 0);
  by('sum').textContent = found.length + ' tasks, ' + well + ' succeeded, $' + cost.toFixed(4)
    + (found.length > 2000 ? ' (the first 2000 are shown)' : '');
  const inTime = [...found].sort((a, b) => a.ended > b.ended ? 1 : -1);
  let spent = 0, good = 0;
  plot('cost', inTime.map(r => spent += r.cost || 0), '#3b6ea5');
  plot('success', inTime.map((r, i) => (good += r.verdict === 'success') / (i + 1)), '#2b7a3a');
}
for (const th of document.querySelectorAll('th')) th.onclick = () => {
  down = order === th.textContent && !down; order = th.textContent; draw(); };
for (const id of ['text', 'verdict', 'status', 'model', 'mode']) by(id).oninput = draw;
draw();
