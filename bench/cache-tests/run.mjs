// Runs cases of the suite against a proxy, and says in JSON what the suite itself makes of the results: its client, its cases
// and its rules; concurrency, a deadline for each request and a second try are all that is added.
//
//     node run.mjs SUITE BASE '{"concurrency": 50, "timeout_ms": 20000, "again": true, "only": []}'
import path from 'node:path'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const [directory, base, words] = process.argv.slice(2)
const options = JSON.parse(words)
const suite = name => import(pathToFileURL(path.resolve(directory, name)))
const config = await suite('client/config.mjs')
const { makeCacheTest, testResults } = await suite('client/test.mjs')
const { determineTestResult } = await suite('lib/display.mjs')
// The same that the suite's own command runs.
const groups = [...(await suite('tests/index.mjs')).default, (await suite('tests/surrogate-control.mjs')).default]
const fetch = createRequire(path.resolve(directory, 'package.json'))('node-fetch')

// The suite's words for its marks.
const verdicts = {
  '-': 'untested',
  '✅': 'pass',
  '⛔️': 'fail',
  '⚠️': 'fail',
  Y: 'yes',
  N: 'no',
  '🔹': 'setup',
  '⁉️': 'setup',
  '⚪️': 'unreachable',
  '↻': 'retry'
}
// Of a second try there are few at once: what has failed for want of time has more of it.
const CONCURRENCY_AGAIN = 8

// Head and content together; the fetch's own timeout ends with the head.
config.setFetch((url, init) => fetch(url, { ...init, signal: AbortSignal.timeout(options.timeout_ms) }))
config.setBaseUrl(base)
config.setUseBrowserCache(false)

// A case changes what it is made of while it runs, so each run has its own.
async function run (tests, concurrency) {
  const left = [...tests]
  const one = async () => {
    while (left.length > 0) await makeCacheTest(structuredClone(left.shift()))
  }
  await Promise.all(Array.from({ length: concurrency }, one))
}

const cases = groups.flatMap(group => group.tests.map(test => ({ group, test })))
const wanted = cases.filter(({ test }) => !test.browser_only && (options.only.length === 0 || options.only.includes(test.id)))
await run(wanted.map(({ test }) => test), options.concurrency)

const first = { ...testResults }
if (options.again) {
  const failed = wanted.map(({ test }) => test).filter(test => first[test.id] !== true)
  failed.forEach(test => delete testResults[test.id])
  await run(failed, Math.min(CONCURRENCY_AGAIN, options.concurrency))
}
const report = cases.map(({ group, test }) => {
  const result = testResults[test.id]
  const mark = determineTestResult(groups, test.id, testResults, options.only.length === 0)[2]
  return {
    id: test.id,
    group: group.name,
    name: test.name,
    kind: test.kind || 'required',
    verdict: verdicts[mark],
    reason: Array.isArray(result) ? result.join(': ') : '',
    // What the first run said of a case that passed in the second only.
    first: result === true && first[test.id] !== true ? first[test.id].join(': ') : ''
  }
})
console.log(JSON.stringify(report))
