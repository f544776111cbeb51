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
for (const { name, unit, samples, weights, startValue, endValue } of trace.profiles) {
  assert.equal(unit, 'nanoseconds');
  assert.equal(samples.length, weights.length, name);
  samples.forEach((stack, i) => {
    assert.ok(stack.every((frame) => frame in trace.shared.frames), `${name}: frames are there`);
    const top = trace.shared.frames[stack.at(-1)].name;
    own.set(top, own.get(top) + weights[i]);
  });
  const sum = weights.reduce((a, b) => a + b, 0);
  assert.ok(sum > 0 && sum <= endValue - startValue, `${name}: ${sum} ns of ${startValue} to ${endValue}`);
}
for (const [name, ns] of own) console.log(`${ns} ${name}`);
