// A member of a room, by tRPC's own client: `node member.js BASE http|ws`. Prints what it has received, in JSON.

import { createTRPCClient, createWSClient, httpBatchStreamLink, httpSubscriptionLink, splitLink, wsLink } from '@trpc/client';
import { EventSource } from 'eventsource';
import WebSocket from 'ws';

const [base, way] = process.argv.slice(2);
const url = `${base}/trpc`;
const socket = way === 'ws' ? createWSClient({ url: url.replace('http', 'ws'), WebSocket }) : null;
const byHttp = splitLink({
  condition: ({ type }) => type === 'subscription',
  true: httpSubscriptionLink({ url, EventSource }),
  false: httpBatchStreamLink({ url }),
});
const client = createTRPCClient({ links: [socket ? wsLink({ client: socket }) : byHttp] });

const heard = [];
const room = `members by ${way}`;
const over = new Promise((resolve, reject) => {
  const subscription = client.said.subscribe(room, {
    async onData(text) {
      heard.push(text);
      if (heard.length <= 5) await client.say.mutate({ room, text: `number ${heard.length}` });
      else {
        subscription.unsubscribe();
        resolve();
      }
    },
    onError: reject,
  });
});
await over;
const greetings = await Promise.all(['a', 'é', 'c'].map((name) => client.greet.query(name)));
const length = await client.length.mutate('x'.repeat(2_000_000));
socket?.close();
console.log(JSON.stringify({ heard, greetings, length }));
process.exit(0);
