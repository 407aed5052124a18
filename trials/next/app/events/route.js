export const dynamic = 'force-dynamic';

export function GET(request) {
  const count = Number(new URL(request.url).searchParams.get('count'));
  const encoder = new TextEncoder();
  const body = new ReadableStream({
    async start(controller) {
      for (let number = 1; number <= count; number++) {
        controller.enqueue(encoder.encode(`id: ${number}\ndata: event ${number}\n\n`));
        await new Promise((done) => setTimeout(done, 100));
      }
      controller.close();
    },
  });
  return new Response(body, { headers: { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' } });
}
