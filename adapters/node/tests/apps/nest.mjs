// NestJS on Express; its decorators are called as functions, since this is no TypeScript.
import 'reflect-metadata';

import { Body, Controller, Get, Header, HttpCode, Ip, Module, Post, Res, Sse } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Readable } from 'node:stream';
import { from, map } from 'rxjs';

import maitred from '../../lib/index.js';

const METHODS = {
  text: [[Get('text'), Header('Content-Type', 'text/plain')], [Ip()], (ip) => `text for ${ip}`],
  json: [[Post('json'), HttpCode(200)], [Body()], (body) => body],
  stream: [[Get('stream')], [Res()], (response) => Readable.from(['one ', 'two ', 'three']).pipe(response.type('text'))],
  error: [[Get('error')], [], () => { throw new Error('asked for'); }],
  events: [[Sse('events')], [], () => from([1, 2, 3]).pipe(map((data) => ({ data })))],
};

class AppController {}
for (const [name, [decorators, parameters, method]] of Object.entries(METHODS)) {
  AppController.prototype[name] = method;
  parameters.forEach((parameter, n) => parameter(AppController.prototype, name, n));
  Reflect.defineMetadata('design:paramtypes', parameters.map(() => Object), AppController.prototype, name);
  const descriptor = Object.getOwnPropertyDescriptor(AppController.prototype, name);
  for (const decorator of decorators) decorator(AppController.prototype, name, descriptor);
}
Controller()(AppController);

class AppModule {
  onApplicationShutdown(signal) {
    console.error(`closed in order: ${signal}`);
  }
}
Module({ controllers: [AppController] })(AppModule);

const app = await NestFactory.create(AppModule, { logger: ['error'] });
app.enableShutdownHooks();
await app.init();
await maitred.listen(app.getHttpServer());
