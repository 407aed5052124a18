// Fastify: /bytes/N is N bytes, /hello a text, /json an object of 10 KB, which a schema describes.
const fastify = require('fastify');
const place = require('./listen');
const items = require('./items');

const CONTENT = Buffer.alloc(1 << 20, 'x');

// Fastify writes JSON by a function that it makes from this, instead of by JSON.stringify.
const schema = {
  response: {
    200: {
      type: 'array',
      items: {
        type: 'object',
        properties: {
          id: { type: 'integer' },
          name: { type: 'string' },
          price: { type: 'number' },
          tags: { type: 'array', items: { type: 'string' } },
          in_stock: { type: 'boolean' },
        },
      },
    },
  },
};

const app = fastify({ keepAliveTimeout: 310_000 });
app.get('/hello', (request, reply) => reply.type('text/plain').send('Hello from Fastify\n'));
app.get('/json', { schema }, (request, reply) => reply.send(items));
app.get('/bytes/:count', (request, reply) => {
  reply.type('text/plain').send(CONTENT.subarray(0, Number(request.params.count)));
});

if (place.port || place.path) {
  app.listen(place);
} else {
  require('maitred').listen(app);
}
