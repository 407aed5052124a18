/* A module in C: answers with a greeting from its configuration, and with the request's path.
 *
 *   cc -std=c99 -O2 -fPIC -fvisibility=hidden -shared -I ../../include -o libhello_c.so hello.c
 *
 *   [[site.route]]
 *   path = "/hello"
 *   module = { path = "/usr/local/lib/maitred/libhello_c.so", config = { greeting = "Hello" } }
 */

#include <stdlib.h>
#include <string.h>

#include "maitred_module.h"

/* Bytes of a path that are repeated. */
#define PATH_BYTES_MAX 256

/* What the handlers get as `data`. Several threads read it at the same time; none writes it. */
typedef struct greeting {
  const maitred_server *server;
  size_t bytes;
  char text[];
} greeting;

/* A constant as a text. */
#define TEXT(constant) { constant, sizeof(constant) - 1 }

static uint32_t on_request(void *data, maitred_request *request) {
  static const maitred_field fields[] = {
    { TEXT("Content-Type"), TEXT("text/plain; charset=utf-8") },
  };
  static const char between[] = ", ";
  const greeting *hello = data;
  const maitred_server *server = hello->server;
  /* Not ended by a 0; good until this function returns. */
  maitred_text path = server->part(request, MAITRED_PATH);
  maitred_response response = { 200, fields, 1, { NULL, 0 } };
  char *content;
  int answered;

  if (path.bytes > PATH_BYTES_MAX) {
    return MAITRED_PASS;
  }
  response.content.bytes = hello->bytes + sizeof(between) - 1 + path.bytes + 1;
  content = malloc(response.content.bytes);
  if (content == NULL) {
    return MAITRED_FAILED;
  }
  memcpy(content, hello->text, hello->bytes);
  memcpy(content + hello->bytes, between, sizeof(between) - 1);
  memcpy(content + hello->bytes + sizeof(between) - 1, path.at, path.bytes);
  content[response.content.bytes - 1] = '\n';
  response.content.at = content;
  answered = server->answer(request, &response);
  /* The server has made a copy. */
  free(content);
  return answered ? MAITRED_ANSWERED : MAITRED_FAILED;
}

/* Says why the module cannot begin. */
static int refuse(maitred_reason *reason, const char *why) {
  size_t bytes = strlen(why);

  reason->bytes = bytes < reason->room ? bytes : reason->room;
  memcpy(reason->at, why, reason->bytes);
  return 1;
}

/* Finds `"greeting":"…"` in the configuration, which is JSON without blanks. For more than that, use a parser of JSON. */
static int find_greeting(maitred_text config, maitred_text *greeting) {
  static const char key[] = "{\"greeting\":\"", end[] = "\"}";
  size_t around = sizeof(key) - 1 + sizeof(end) - 1;

  if (config.bytes < around || memcmp(config.at, key, sizeof(key) - 1) != 0) {
    return 0;
  }
  greeting->at = config.at + sizeof(key) - 1;
  greeting->bytes = config.bytes - around;
  if (memcmp(greeting->at + greeting->bytes, end, sizeof(end) - 1) != 0) {
    return 0;
  }
  return memchr(greeting->at, '"', greeting->bytes) == NULL && memchr(greeting->at, '\\', greeting->bytes) == NULL;
}

/* Called once for each configuration, before the process is confined to its files. */
static int init(const maitred_server *server, maitred_text config, maitred_instance *instance, maitred_reason *reason) {
  maitred_text text;
  greeting *hello;

  /* A server of this version may be older than the header: then it has less to offer. */
  if (server->bytes < sizeof(*server)) {
    return refuse(reason, "the server is older than the module");
  }
  if (!find_greeting(config, &text)) {
    return refuse(reason, "`config` has to have `greeting`, a text without quotes, and nothing else");
  }
  hello = malloc(sizeof(*hello) + text.bytes);
  if (hello == NULL) {
    return refuse(reason, "no memory");
  }
  hello->server = server;
  hello->bytes = text.bytes;
  memcpy(hello->text, text.at, text.bytes);
  /* Never freed: instances last as long as the process. */
  instance->data = hello;
  instance->on_request = on_request;
  return 0;
}

const maitred_module *maitred_module_v1(void) {
  static const maitred_module module = { sizeof(module), MAITRED_MODULE_VERSION, init };

  return &module;
}
