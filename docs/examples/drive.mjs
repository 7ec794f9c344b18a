// Drives a session of coder from Node: `node drive.mjs "a task"`. No package is needed.
// Sends ops as JSON lines, reads events; edits are allowed, all else that is asked about is refused.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

const [program, ...before] = (process.env.CODER_COMMAND ?? "coder").split(" ");
const coder = spawn(program, [...before, "--input", "stream-json"], { stdio: ["pipe", "pipe", "inherit"] });
const send = (op) => coder.stdin.write(JSON.stringify(op) + "\n");

send({ op: "user_input", text: process.argv[2] ?? "What is this project?" });

for await (const line of createInterface({ input: coder.stdout })) {
  const told = JSON.parse(line);
  if (told.type === "assistant_chunk") process.stdout.write(told.content);
  if (told.event === "approval_requested") {
    const answer = ["write", "edit", "patch"].includes(told.tool) ? "yes" : "no";
    console.log(`[${told.tool}: ${answer}]`);
    send({ op: "approval_reply", approval_id: told.approval_id, answer });
  }
  if (told.event === "turn_ended") console.log(`\n[${told.status}, ${told.steps} steps]`);
  if (told.event === "input_done") coder.stdin.end(); // ends the session
}
