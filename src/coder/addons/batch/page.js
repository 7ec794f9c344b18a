const rows = JSON.parse(document.getElementById('rows').textContent);
const by = id => document.getElementById(id);
const fields = ['id','verdict','status','check','model','mode','attempt','steps','tokens','cost','duration','error'];
const most = 2000;  // rows that are shown
let order = 'id', down = false;
const el = (name, text, parent) => { const e = document.createElement(name); if (text !== undefined) e.textContent = text;
  if (parent) parent.appendChild(e); return e; };
const usd = n => '$' + (n ? n.toFixed(n < 1 ? 4 : 2) : 0);
const short = n => n >= 1e6 ? (n / 1e6).toFixed(1) + 'M' : n >= 1e3 ? (n / 1e3).toFixed(1) + 'k' : String(n);
const time = s => s < 60 ? s.toFixed(1) + 's' : s < 3600 ? Math.floor(s / 60) + 'm' + String(Math.floor(s % 60)).padStart(2, '0') + 's'
  : Math.floor(s / 3600) + 'h' + String(Math.floor(s % 3600 / 60)).padStart(2, '0') + 'm';
const shown = {cost: usd, duration: time, tokens: short};
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
function plot(id, values, top, colour, label) {
  const svg = by(id), space = 'http://www.w3.org/2000/svg';
  svg.replaceChildren(); svg.setAttribute('viewBox', '0 0 1000 100'); svg.setAttribute('preserveAspectRatio', 'none');
  const line = document.createElementNS(space, 'polyline');
  line.setAttribute('points', values.map((v, i) =>
    (values.length > 1 ? i * 1000 / (values.length - 1) : 500) + ',' + (98 - 96 * v / top)).join(' '));
  line.setAttribute('fill', 'none'); line.setAttribute('stroke', colour); line.setAttribute('stroke-width', '2');
  line.setAttribute('vector-effect', 'non-scaling-stroke'); svg.appendChild(line);
  by(id + '-top').textContent = label(top); by(id + '-bottom').textContent = label(0);
  by(id + '-count').textContent = values.length;
}
function cell(r, name, tr) {
  if (name === 'id') {
    const td = el('td', undefined, tr);
    if (!r.record) el('span', r.id, td);
    for (const [file, title] of [['record', r.id], ['patch', 'patch'], ['answer', 'answer']])
      if (r[file]) el('a', title, td).href = encodeURI('./' + r[file]);
    return;
  }
  if (name === 'error') { const div = el('div', r.error, el('td', undefined, tr)); div.title = r.error; return; }
  const value = r[name], td = el('td', value == null ? '' : (shown[name] || String)(value), tr);
  if (name === 'verdict') td.className = r.verdict === 'success' ? 'yes' : 'no';
  if (typeof value === 'number') td.className = 'n';
}
function draw() {
  const sign = down ? -1 : 1;
  const found = chosen().sort((a, b) => (a[order] > b[order] ? 1 : a[order] < b[order] ? -1 : 0) * sign);
  const body = by('body'); body.replaceChildren();
  for (const r of found.slice(0, most)) { const tr = el('tr', undefined, body); for (const name of fields) cell(r, name, tr); }
  const well = found.filter(r => r.verdict === 'success').length, cost = found.reduce((s, r) => s + (r.cost || 0), 0);
  by('sum').textContent = found.length + ' tasks, ' + well + ' succeeded'
    + (found.length ? ' (' + (100 * well / found.length).toFixed(1) + ' %)' : '') + ', ' + usd(cost)
    + (found.length > most ? '; the first ' + most + ' are shown' : '');
  const inTime = chosen();  // as they ended: by the file, because clocks jump
  let spent = 0, good = 0;
  plot('cost', inTime.map(r => spent += r.cost || 0), Math.max(spent, 1e-9), '#3b6ea5', usd);
  plot('success', inTime.map((r, i) => (good += r.verdict === 'success') / (i + 1)), 1, '#2b7a3a', n => 100 * n + ' %');
  for (const th of document.querySelectorAll('th')) th.className = th.textContent === order ? 'order' + (down ? ' down' : '') : '';
}
for (const th of document.querySelectorAll('th')) th.onclick = () => {
  down = order === th.textContent && !down; order = th.textContent; draw(); };
for (const id of ['text', 'verdict', 'status', 'model', 'mode']) by(id).oninput = draw;
draw();
