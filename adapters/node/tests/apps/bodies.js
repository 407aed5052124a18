'use strict';

const crypto = require('node:crypto');
const fs = require('node:fs/promises');
const { json } = require('node:stream/consumers');

const { formidable } = require('formidable');

/** The fields and files of a form, with the size and the hash of each file. */
async function uploadOf(request) {
  const [fields, files] = await formidable({ maxFileSize: 50_000_000 }).parse(request);
  const [{ filepath, originalFilename: name, size }] = files.file;
  const sha256 = crypto.createHash('sha256').update(await fs.readFile(filepath)).digest('hex');
  await fs.rm(filepath);
  return { fields, name, size, sha256 };
}

module.exports = { jsonOf: json, uploadOf };
