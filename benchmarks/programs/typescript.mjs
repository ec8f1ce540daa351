// The whole of @ag-ui/client on a stream that is in memory, in microseconds of CPU for each event.
//
//   node typescript.mjs KIND COUNT      the streams of scripts.py, which writes them
import { execFileSync } from "node:child_process";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const [kind, count] = process.argv.slice(2);
const root = fileURLToPath(new URL("../../", import.meta.url));
const require = createRequire(root + ".cache/peers/package.json");
const { AbstractAgent } = require("@ag-ui/client");
const { Observable } = require("rxjs");

const line = ["-m", "benchmarks.programs.scripts", kind, count];
const body = execFileSync("python3", line, { cwd: root, maxBuffer: 1 << 30 }).toString();
const events = body.split("\n\n").filter(Boolean).map((block) => JSON.parse(block.slice(6)));

class Scripted extends AbstractAgent {
  run() {
    return new Observable((observer) => {
      let next = 0;
      const step = () => {
        const end = Math.min(next + 64, events.length);
        while (next < end) observer.next(events[next++]);
        if (next < events.length) setImmediate(step);
        else observer.complete();
      };
      step();
    });
  }
}

const agent = new Scripted({ threadId: "t-1" });
agent.messages = [];
const before = process.cpuUsage();
await agent.runAgent({ runId: "r-1" });
const took = process.cpuUsage(before);
if (!agent.messages.length && !Object.keys(agent.state ?? {}).length) throw new Error("nothing was folded");
console.log(JSON.stringify({ "@ag-ui/client": (took.user + took.system) / events.length }));
