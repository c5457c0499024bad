#!/usr/bin/env node
// Calls ccbox once per shell command and reads the machine form: harness.mjs SPEC COMMAND [CCBOX-OPTION...]
//
// Standard error is shared with the command and can be imitated; the events on a descriptor of their own cannot. With `--capture` the
// output comes with them.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

/** Runs `command` in the sandbox; resolves to its handle, output, denials and the event that ended it. */
export async function call(spec, command, options = [], ccbox = 'ccbox') {
  const run = { handle: null, output: [], denied: [], ended: null };
  const argv = ['run', '-q', '--spec', spec, '--capture', '--events', 'fd:3', ...options, '--', 'bash', '-c', command];
  // What ccbox itself says is in the events, too.
  const child = spawn(ccbox, argv, { stdio: ['ignore', 'ignore', 'ignore', 'pipe'] });
  const gone = new Promise((resolve, reject) => child.on('error', reject).on('close', resolve));
  for await (const line of createInterface({ input: child.stdio[3] })) take(run, JSON.parse(line));
  await gone;
  return { ...run, output: Buffer.concat(run.output) };
}

function take(run, event) {
  switch (event.type) {
    case 'ready':
      run.handle = event.handle;
      break;
    case 'stdout':
    case 'stderr':
      run.output.push('text' in event ? Buffer.from(event.text) : Buffer.from(event.base64, 'base64'));
      break;
    case 'violation':
      if (event.count === 1) run.denied.push(event);
      break;
    case 'exit':
    case 'killed':
    case 'error':
      run.ended = event;
      break;
    default: // Types that are not known here are for somebody else.
  }
  if (run.handle && 'state' in event) Object.assign(run.handle, { state: event.state, error: event.error ?? null });
}

const [spec, command, ...options] = process.argv.slice(2);
const run = await call(spec, command, options);
process.stdout.write(run.output);
if (run.ended === null) {
  console.error('[ccbox was killed]');
  process.exit(1);
}
console.log(`[${run.ended.type} ${run.ended.exit_code ?? run.ended.reason}]`);
for (const { action, target, hint } of run.denied) {
  console.log(`[denied ${action} ${target}]`);
  if (hint) console.log(`[hint ${hint}]`);
}
if (run.handle) console.log(`[${run.handle.backend} ${run.handle.state}]`);
