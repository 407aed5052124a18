'use client';

import Link from 'next/link';
import { useActionState, useEffect, useState } from 'react';
import { greet } from './actions';

export default function Form() {
  const [greeting, action] = useActionState(greet, 'hello nobody');
  const [ready, setReady] = useState('');
  useEffect(() => setReady('ready'), []);
  return (
    <form action={action}>
      <input name="name" /> <button>greet</button>
      <p>{greeting}</p>
      <p>{ready}</p>
      <Link href="/hello/otto">otto</Link>
    </form>
  );
}
