export const dynamic = 'force-dynamic';

// Something with a stated length, to see whether the server answers.
export function GET() {
  return new Response('ready\n', { headers: { 'Content-Length': '6' } });
}
