// Express: /hello is a text, /json an object of 10 KB.
const express = require('express');
const place = require('./listen');
const items = require('./items');

const app = express();
app.get('/hello', (request, response) => response.type('text/plain').send('Hello from Express\n'));
app.get('/json', (request, response) => response.json(items));

if (place.port || place.path) {
  app.listen(...(place.path ? [place.path] : [place.port, place.host])).keepAliveTimeout = 310_000;
} else {
  require('maitred').listen(app);
}
