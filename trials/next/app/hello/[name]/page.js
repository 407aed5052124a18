import { headers } from 'next/headers';
import { notFound } from 'next/navigation';

export default async function Page({ params, searchParams }) {
  const name = decodeURIComponent((await params).name);
  if (name === 'nobody') notFound();
  const told = await headers();
  return <p>{`hello ${name} ${JSON.stringify(await searchParams)} ${told.get('accept-language')}`}</p>;
}
