'use server';

import { cookies } from 'next/headers';

export async function greet(previous, form) {
  const count = Number((await cookies()).get('count')?.value ?? 0) + 1;
  (await cookies()).set('count', String(count));
  return `hello ${form.get('name')}, ${count}`;
}
