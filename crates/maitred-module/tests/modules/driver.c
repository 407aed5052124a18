/* For tests: calls the functions of the module that it is linked with. Of the texts that it gives them, valgrind notices each
 * byte that is read beyond the end. Prints what is answered. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "maitred_module.h"

#define REQUESTS 100

struct maitred_request {
  maitred_text path;
};

/* In memory of its own, as long as it is. */
static maitred_text copy_of(const char *text) {
  maitred_text copy;
  char *at;

  copy.bytes = strlen(text);
  at = malloc(copy.bytes == 0 ? 1 : copy.bytes);
  if (at == NULL) abort();
  memcpy(at, text, copy.bytes);
  copy.at = at;
  return copy;
}

static maitred_text part(const maitred_request *request, uint32_t which) {
  maitred_text none = { NULL, 0 };

  return which == MAITRED_PATH ? request->path : none;
}

static int answer(maitred_request *request, const maitred_response *response) {
  size_t at;

  (void)request;
  printf("%u", (unsigned)response->status);
  for (at = 0; at < response->field_count; at++) {
    const maitred_field *field = &response->fields[at];

    printf(" %.*s: %.*s", (int)field->name.bytes, field->name.at, (int)field->value.bytes, field->value.at);
  }
  printf(" %.*s", (int)response->content.bytes, response->content.at);
  return 1;
}

static maitred_server server;
static maitred_instance instance;

int main(int count, char **arguments) {
  const maitred_module *module = maitred_module_v1();
  maitred_text config = copy_of(count > 1 ? arguments[1] : "");
  maitred_reason reason;
  int at, failed;

  server.bytes = sizeof(server);
  server.version = MAITRED_MODULE_VERSION;
  server.part = part;
  server.answer = answer;
  instance.bytes = sizeof(instance);
  reason.room = 8;
  reason.bytes = 0;
  reason.at = malloc(reason.room);
  if (reason.at == NULL) return 2;
  failed = module->init(&server, config, &instance, &reason);
  free((void *)config.at);
  if (failed) {
    printf("refused: %.*s\n", (int)reason.bytes, reason.at);
  }
  free(reason.at);
  for (at = 0; !failed && at < REQUESTS; at++) {
    maitred_request request;

    request.path = copy_of(count > 2 ? arguments[2] : "");
    printf("%u\n", (unsigned)instance.on_request(instance.data, &request));
    free((void *)request.path.at);
  }
  return 0;
}
