'use strict';

const { Readable } = require('node:stream');

const Koa = require('koa');

const maitred = require('../../lib');
const { jsonOf, uploadOf } = require('./bodies');

const ROUTES = {
  'GET /text': (context) => { context.body = `text for ${context.ip}`; },
  'POST /json': async (context) => { context.body = await jsonOf(context.req); },
  'GET /stream': (context) => {
    context.type = 'text';
    context.body = Readable.from(['one ', 'two ', 'three']);
  },
  'POST /upload': async (context) => { context.body = await uploadOf(context.req); },
  'GET /error': () => { throw new Error('asked for'); },
  'GET /file': async (context) => {
    context.respond = false;
    context.status = 200;
    await maitred.sendFile(context.res, context.query.name);
  },
};

const app = new Koa();
app.use((context) => ROUTES[`${context.method} ${context.path}`]?.(context));
maitred.listen(app);
