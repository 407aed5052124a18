// Calls of gRPC-Web as browsers make them: Connect's transport over fetch. `node web.mjs PACKAGES URL`: the directory of the
// packages, and where a server of gRPC's interop cases is.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import assert from "node:assert";

const [directory, baseUrl] = process.argv.slice(2);
const at = createRequire(`${directory}/package.json`);
const load = (name) => import(pathToFileURL(at.resolve(name)));
const { create, createFileRegistry } = await load("@bufbuild/protobuf");
const { FileDescriptorProtoSchema, FileDescriptorSetSchema } = await load("@bufbuild/protobuf/wkt");
const { createClient, ConnectError, Code } = await load("@connectrpc/connect");
const { createGrpcWebTransport } = await load("@connectrpc/connect-web");

const [INT32, BYTES, STRING, MESSAGE, OPTIONAL, REPEATED] = [5, 12, 9, 11, 1, 3];
const field = (name, number, type, typeName, label = OPTIONAL) => ({
  name, number, type, typeName: typeName && `.grpc.testing.${typeName}`, label, jsonName: name,
});
const method = (name, inputType, outputType, serverStreaming = false) => ({
  name, inputType: `.grpc.testing.${inputType}`, outputType: `.grpc.testing.${outputType}`, serverStreaming,
});
// What is used of the project's test.proto.
const file = create(FileDescriptorProtoSchema, {
  name: "test.proto", package: "grpc.testing", syntax: "proto3",
  messageType: [
    { name: "Empty" },
    { name: "Payload", field: [field("body", 2, BYTES)] },
    { name: "EchoStatus", field: [field("code", 1, INT32), field("message", 2, STRING)] },
    { name: "ResponseParameters", field: [field("size", 1, INT32), field("interval_us", 2, INT32)] },
    { name: "SimpleRequest", field: [
      field("response_size", 2, INT32), field("payload", 3, MESSAGE, "Payload"), field("response_status", 7, MESSAGE, "EchoStatus"),
    ] },
    { name: "SimpleResponse", field: [field("payload", 1, MESSAGE, "Payload")] },
    { name: "StreamingOutputCallRequest", field: [field("response_parameters", 2, MESSAGE, "ResponseParameters", REPEATED)] },
    { name: "StreamingOutputCallResponse", field: [field("payload", 1, MESSAGE, "Payload")] },
  ],
  service: [{ name: "TestService", method: [
    method("EmptyCall", "Empty", "Empty"),
    method("UnaryCall", "SimpleRequest", "SimpleResponse"),
    method("UnimplementedCall", "Empty", "Empty"),
    method("StreamingOutputCall", "StreamingOutputCallRequest", "StreamingOutputCallResponse", true),
  ] }],
});
const registry = createFileRegistry(create(FileDescriptorSetSchema, { file: [file] }));
const client = createClient(registry.getService("grpc.testing.TestService"), createGrpcWebTransport({ baseUrl }));

const failure = async (call) => {
  try { await call; } catch (error) { return ConnectError.from(error); }
  throw new Error("no error");
};

await client.emptyCall({});
const large = await client.unaryCall({ responseSize: 314159, payload: { body: new Uint8Array(271828) } });
assert.equal(large.payload.body.length, 314159);
const sizes = [];
for await (const { payload } of client.streamingOutputCall({ responseParameters: [{ size: 31415 }, { size: 9 }, { size: 2653 }] })) {
  sizes.push(payload.body.length);
}
assert.deepEqual(sizes, [31415, 9, 2653]);
const message = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n";
const refused = await failure(client.unaryCall({ responseStatus: { code: 2, message } }));
assert.deepEqual([refused.code, refused.rawMessage], [Code.Unknown, message]);
assert.equal((await failure(client.unimplementedCall({}))).code, Code.Unimplemented);
// The server is slower than that, and Maitred's deadline is what ends it: this client's own is longer.
const slow = { responseParameters: [{ size: 1, intervalUs: 30_000_000 }] };
const late = await failure((async () => {
  for await (const _ of client.streamingOutputCall(slow, { headers: { "grpc-timeout": "200m" } })) { /* none */ }
})());
assert.equal(late.code, Code.DeadlineExceeded);
// What Maitred answers itself.
const gone = createClient(registry.getService("grpc.testing.TestService"), createGrpcWebTransport({ baseUrl: `${baseUrl}/gone` }));
const error = await failure(gone.emptyCall({}));
assert.deepEqual([error.code, error.rawMessage], [Code.Unavailable, "502 Bad Gateway"]);
console.log("done");
