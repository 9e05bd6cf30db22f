// A session with the protocol's own test client: npm install @vscode/debugadapter-testsupport, then
// NODE_PATH=…/node_modules node benchmarks/debug_adapter.js k.ptx launch.toml LINE
const { DebugClient } = require("@vscode/debugadapter-testsupport");
const fs = require("fs");
const os = require("os");
const path = require("path");

async function main([ptx, launch, line]) {
  // the client starts an interpreter with one file
  const starter = path.join(fs.mkdtempSync(path.join(os.tmpdir(), "ptxkit-")), "adapter.py");
  fs.writeFileSync(starter, 'import sys\nfrom ptxkit.cli import run\nsys.argv = ["ptxkit", "debug", "--dap"]\nrun()\n');
  const client = new DebugClient("python3", starter, "ptxkit");
  let count = 0;
  const send = client.send.bind(client);
  client.send = (command, args) => (count++, send(command, args));
  await client.start();
  client.defaultTimeout = 60000;
  const program = path.resolve(ptx);
  await client.hitBreakpoint({ program, launch: path.resolve(launch) }, { path: program, line: Number(line) });
  const steps = [];
  const resumed = async (request) => {
    const begun = performance.now();
    const stopped = client.waitForEvent("stopped");
    await request();
    await stopped;
    steps.push(performance.now() - begun);
  };
  for (let i = 0; i < 5; i++) await resumed(() => client.nextRequest({ threadId: 1 }));
  await resumed(() => client.stepInRequest({ threadId: 1 }));
  await resumed(() => client.stepBackRequest({ threadId: 1 }));
  await resumed(() => client.reverseContinueRequest({ threadId: 1 }));
  const { threads } = (await client.threadsRequest()).body;
  const { stackFrames } = (await client.stackTraceRequest({ threadId: threads[0].id })).body;
  const { scopes } = (await client.scopesRequest({ frameId: stackFrames[0].id })).body;
  let variables = 0;
  for (const scope of scopes) variables += (await client.variablesRequest({ variablesReference: scope.variablesReference })).body.variables.length;
  const tid = (await client.evaluateRequest({ expression: "%tid.x", frameId: stackFrames[0].id })).body.result;
  await client.setBreakpointsRequest({ source: { path: program }, breakpoints: [] });
  await Promise.all([client.continueRequest({ threadId: 1 }), client.waitForEvent("terminated")]);
  await client.disconnectRequest();
  steps.sort((a, b) => a - b);
  console.log(`${count} requests, all answered; ${threads.length} warps, line ${stackFrames[0].line}, ${variables} variables, %tid.x ${tid}`);
  console.log(`steps: median ${steps[steps.length >> 1].toFixed(1)} ms, longest ${steps.at(-1).toFixed(1)} ms`);
  process.exit(0);
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
