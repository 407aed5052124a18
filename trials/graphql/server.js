// Rooms by GraphQL (Apollo Server, GraphQL Yoga, graphql-ws) and by tRPC, on one http.Server that listens as it does everywhere.

import { EventEmitter, on } from 'node:events';
import http from 'node:http';

import { ApolloServer } from '@apollo/server';
import { expressMiddleware } from '@as-integrations/express5';
import { makeExecutableSchema } from '@graphql-tools/schema';
import { initTRPC } from '@trpc/server';
import { createExpressMiddleware } from '@trpc/server/adapters/express';
import { applyWSSHandler } from '@trpc/server/adapters/ws';
import express from 'express';
import { useServer } from 'graphql-ws/use/ws';
import { createYoga } from 'graphql-yoga';
import { WebSocketServer } from 'ws';
import { z } from 'zod';

const rooms = new EventEmitter();
rooms.setMaxListeners(0);

/** What is said in a room, from the moment of the call. */
async function* listen(room, signal) {
  try {
    for await (const [text] of on(rooms, room, { signal })) yield text;
  } catch (error) {
    if (error.name !== 'AbortError') throw error;
  }
}

/** First `joined`, so that a listener knows that it is subscribed; `bye` ends it. */
async function* conversation(room, signal) {
  const heard = listen(room, signal);
  const first = heard.next();
  yield 'joined';
  for (let next = await first; !next.done && next.value !== 'bye'; next = await heard.next()) yield next.value;
  await heard.return();
}

const schema = makeExecutableSchema({
  typeDefs: `
    type Query { greeting(times: Int!): String! listeners(room: String!): Int! }
    type Mutation { say(room: String!, text: String!): Int! length(text: String!): Int! }
    type Subscription { said(room: String!): String! }`,
  resolvers: {
    Query: {
      greeting: (_, { times }) => 'hello é '.repeat(times),
      listeners: (_, { room }) => rooms.listenerCount(room),
    },
    Mutation: {
      say: (_, { room, text }) => {
        rooms.emit(room, text);
        return rooms.listenerCount(room);
      },
      length: (_, { text }) => text.length,
    },
    Subscription: {
      said: {
        subscribe: (_, { room }, { request }) => conversation(room, request?.signal),
        resolve: (text) => text,
      },
    },
  },
});

const t = initTRPC.create();
const router = t.router({
  greet: t.procedure.input(z.string()).query(({ input }) => `hello ${input}`),
  length: t.procedure.input(z.string()).mutation(({ input }) => input.length),
  say: t.procedure.input(z.object({ room: z.string(), text: z.string() }))
    .mutation(({ input }) => rooms.emit(input.room, input.text)),
  said: t.procedure.input(z.string()).subscription(({ input, signal }) => conversation(input, signal)),
});

const app = express();
const server = http.createServer(app);
const apollo = new ApolloServer({ schema });
await apollo.start();
app.use('/apollo', express.json({ limit: '30mb' }), expressMiddleware(apollo));
app.use('/yoga', createYoga({ schema, graphqlEndpoint: '/yoga', logging: false }));
app.use('/trpc', createExpressMiddleware({ router, createContext: () => ({}), maxBodySize: 30_000_000 }));

const graphqlPeers = new WebSocketServer({ noServer: true });
const trpcPeers = new WebSocketServer({ noServer: true });
useServer({ schema, context: () => ({}) }, graphqlPeers);
applyWSSHandler({ wss: trpcPeers, router, createContext: () => ({}) });
server.on('upgrade', (request, socket, head) => {
  const peers = request.url.startsWith('/trpc') ? trpcPeers : graphqlPeers;
  peers.handleUpgrade(request, socket, head, (peer) => peers.emit('connection', peer, request));
});
server.listen(Number(process.env.PORT), '127.0.0.1');
