// What speedscope would show of a file: fails where its schema, or what that
// cannot say, is not kept; prints a line "own-ns name" for each function.
//
// usage: speedscope.mjs NODE_MODULES FILE
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const [modules, file] = process.argv.slice(2);
const { default: Ajv } = createRequire(`${modules}/`)('ajv');
const read = (name) => JSON.parse(readFileSync(name, 'utf8'));

// Its unions of types have titles and defaults, which strict mode takes for errors.
const ajv = new Ajv({ strict: false, allErrors: true });
const trace = read(file);
assert.ok(ajv.validate(read(`${modules}/speedscope/dist/release/file-format-schema.json`), trace),
  ajv.errorsText());

const own = new Map(trace.shared.frames.map(({ name }) => [name, 0]));
assert.equal(own.size, trace.shared.frames.length, 'names are different');
for (const { name, type, unit, events, startValue, endValue } of trace.profiles) {
  const open = [];
  let last = startValue, sum = 0;
  assert.deepEqual([type, unit], ['evented', 'nanoseconds']);
  for (const { type: edge, frame, at } of events) {
    assert.ok(frame in trace.shared.frames, `${name}: frame ${frame} is there`);
    assert.ok(at >= last && at <= endValue, `${name}: ${last}, then ${at}`);
    if (open.length > 0) {
      const top = trace.shared.frames[open.at(-1)].name;
      own.set(top, own.get(top) + at - last);
      sum += at - last;
    }
    last = at;
    if (edge === 'O') open.push(frame);
    else assert.equal(open.pop(), frame, `${name}: what ends is the last that began`);
  }
  assert.deepEqual(open, [], `${name}: all has ended`);
  assert.ok(sum > 0 && sum <= endValue - startValue, `${name}: ${sum} ns of ${startValue} to ${endValue}`);
}
for (const [name, ns] of own) console.log(`${ns} ${name}`);
