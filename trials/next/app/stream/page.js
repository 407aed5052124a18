import { Suspense } from 'react';

export const dynamic = 'force-dynamic';

async function Late({ after }) {
  await new Promise((done) => setTimeout(done, after));
  return <p>{`after ${after} ms`}</p>;
}

export default function Page() {
  return [200, 400].map((after) => <Suspense key={after} fallback={<p>waits</p>}><Late after={after} /></Suspense>);
}
