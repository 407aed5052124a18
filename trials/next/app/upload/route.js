import { createHash } from 'node:crypto';

export async function POST(request) {
  const digest = createHash('sha256');
  let length = 0;
  for await (const piece of request.body) {
    digest.update(piece);
    length += piece.length;
  }
  return Response.json({ length, digest: digest.digest('hex') }, { status: 201, headers: { 'X-Trial': 'yes' } });
}
