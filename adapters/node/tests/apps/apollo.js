'use strict';
// Apollo Server, which makes its server and has it listen by itself.

const { ApolloServer } = require('@apollo/server');
const { startStandaloneServer } = require('@apollo/server/standalone');

const typeDefs = 'type Query { hello(name: String): String, address: String }';
const resolvers = {
  Query: {
    hello: (parent, { name }) => `Hello ${name}`,
    address: (parent, parameters, { address }) => address,
  },
};
const context = async ({ req: request }) => ({ address: request.socket.remoteAddress });
startStandaloneServer(new ApolloServer({ typeDefs, resolvers }), { listen: { port: 4000 }, context })
  .then(({ url }) => console.error(`ready at ${url}`));
