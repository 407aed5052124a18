/* For tests: a module that does what none should do. `config = { init = "…" }` says what `init` does, the path of a request
 * what the rest does.
 *
 *   cc -fPIC -shared -pthread -I ../../include -o libfaulty.so faulty.c */

#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "maitred_module.h"

#define TEXT(constant) { constant, sizeof(constant) - 1 }

/* The holding of an event loop that is to be seen: longer than 100 ms. */
#define HOLD_MILLISECONDS 300

static const maitred_server *server;
static volatile int *volatile nowhere;
static volatile int go_on = 1;

static int has(maitred_text text, const char *wanted) {
  size_t at, bytes = strlen(wanted);

  for (at = 0; at + bytes <= text.bytes; at++) {
    if (memcmp(text.at + at, wanted, bytes) == 0) {
      return 1;
    }
  }
  return 0;
}

static maitred_text text_of(const char *text) {
  maitred_text made;

  made.at = text;
  made.bytes = strlen(text);
  return made;
}

static maitred_response plain(const char *text) {
  maitred_response response = { 200, NULL, 0, { NULL, 0 } };

  response.content = text_of(text);
  return response;
}

static void hold(void) {
  struct timespec begin, now;

  clock_gettime(CLOCK_MONOTONIC, &begin);
  do {
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < HOLD_MILLISECONDS);
}

static void loop(void) {
  while (go_on) { /* for ever */ }
}

static uint32_t answer(maitred_request *request, const char *text) {
  maitred_response response = plain(text);

  return server->answer(request, &response) ? MAITRED_ANSWERED : MAITRED_FAILED;
}

/* If it is refused, there is another answer, and the tests see by its text that it was. */
static uint32_t answer_badly(maitred_request *request, const char *name, const char *value, uint16_t status) {
  maitred_field field;
  maitred_response response = { 0, NULL, 1, { NULL, 0 } };

  field.name = text_of(name);
  field.value = text_of(value);
  response.status = status;
  response.fields = &field;
  return server->answer(request, &response) ? MAITRED_ANSWERED : answer(request, "refused\n");
}

static void *complete(void *data) {
  maitred_response response = plain("from a thread\n");

  server->complete(data, &response);
  free(data);
  return NULL;
}

static void complete_in_helper(void *data) {
  hold();
  complete(data);
}

static void crash_in_helper(void *data) {
  (void)data;
  *nowhere = 1;
}

/* The request is left to a thread of the module's own, or to a helper of the server. */
static uint32_t leave(maitred_request *request, void (*helper)(void *)) {
  maitred_ticket *ticket = malloc(sizeof(*ticket));
  pthread_t thread;

  if (ticket == NULL || !server->later(request, ticket)) {
    free(ticket);
    return MAITRED_FAILED;
  }
  if (helper != NULL ? !server->run(helper, ticket) : pthread_create(&thread, NULL, complete, ticket) != 0) {
    complete(ticket);
  } else if (helper == NULL) {
    pthread_detach(thread);
  }
  return MAITRED_LATER;
}

static uint32_t twice(maitred_request *request) {
  maitred_response first = plain("first\n"), second = plain("second\n");
  maitred_ticket ticket;

  if (!server->later(request, &ticket)) {
    return MAITRED_FAILED;
  }
  server->complete(&ticket, &first);
  server->log(MAITRED_INFO, text_of(server->complete(&ticket, &second) ? "second taken" : "second refused"));
  return MAITRED_LATER;
}

/* A ticket that no request has. */
static uint32_t forge(maitred_request *request) {
  maitred_ticket ticket = { { 1, ~(uint64_t)0, 12345 } };
  maitred_response response = plain("forged\n");

  return answer(request, server->complete(&ticket, &response) ? "taken\n" : "refused\n");
}

static uint32_t on_request(void *data, maitred_request *request) {
  maitred_text path = server->part(request, MAITRED_PATH);
  maitred_ticket ticket;

  (void)data;
  if (has(path, "/crash/helper")) return leave(request, crash_in_helper);
  if (has(path, "/crash")) return (uint32_t)*nowhere;
  if (has(path, "/abort")) abort();
  if (has(path, "/loop")) loop();
  if (has(path, "/hold")) hold();
  if (has(path, "/bad/name")) return answer_badly(request, "a b", "c", 200);
  if (has(path, "/bad/value")) return answer_badly(request, "a", "b\r\nc: d", 200);
  if (has(path, "/bad/status")) return answer_badly(request, "a", "b", 99);
  if (has(path, "/bad/framing")) return answer_badly(request, "Transfer-Encoding", "chunked", 200);
  if (has(path, "/never")) return server->later(request, &ticket) ? MAITRED_LATER : MAITRED_FAILED;
  if (has(path, "/twice")) return twice(request);
  if (has(path, "/thread")) return leave(request, NULL);
  if (has(path, "/helper")) return leave(request, complete_in_helper);
  if (has(path, "/forged")) return forge(request);
  if (has(path, "/set")) {
    return answer(request, server->set_request_field(request, text_of("X-Other"), path) ? "set\n" : "refused\n");
  }
  /* Says that it did what it did not. */
  if (has(path, "/silent")) return MAITRED_ANSWERED;
  if (has(path, "/nothing/later")) return MAITRED_LATER;
  if (has(path, "/number")) return 77;
  if (has(path, "/failed")) return MAITRED_FAILED;
  if (has(path, "/pass")) return MAITRED_PASS;
  return answer(request, "fine\n");
}

static void on_response(void *data, const maitred_request *request, maitred_head *head) {
  maitred_text path = server->part(request, MAITRED_PATH);
  const char *names[] = { "Content-Length", "Transfer-Encoding", "Connection", "bad name" };
  size_t at;

  (void)data;
  if (has(path, "/filter/crash")) *nowhere = 1;
  for (at = 0; has(path, "/filter/framing") && at < sizeof(names) / sizeof(names[0]); at++) {
    if (server->edit(head, MAITRED_SET, text_of(names[at]), text_of("1")) ||
        server->edit(head, MAITRED_REMOVE, text_of(names[at]), text_of(""))) {
      server->edit(head, MAITRED_ADD, text_of("X-Edited"), text_of(names[at]));
    }
  }
  if (has(path, "/filter/bad")) {
    server->edit(head, MAITRED_SET, text_of("X-Bad"), text_of("a\r\nb: c"));
    server->edit(head, 9, text_of("X-Bad"), text_of("d"));
  }
}

static void *wait_for_ever(void *data) {
  (void)data;
  for (;;) {
    struct timespec long_time = { 3600, 0 };

    nanosleep(&long_time, NULL);
  }
  return NULL;
}

static int start(void *data, maitred_reason *reason) {
  (void)data;
  reason->bytes = reason->room < 4 ? reason->room : 4;
  memcpy(reason->at, "time", reason->bytes);
  return 1;
}

static int init(const maitred_server *given, maitred_text config, maitred_instance *instance, maitred_reason *reason) {
  pthread_t thread;

  server = given;
  if (has(config, "\"crash\"")) *nowhere = 1;
  if (has(config, "\"abort\"")) abort();
  if (has(config, "\"exit\"")) exit(3);
  if (has(config, "\"loop\"")) loop();
  if (has(config, "\"silent\"")) return 1;
  if (has(config, "\"refuse\"")) {
    memset(reason->at, 'x', reason->room);
    /* More than there is. */
    reason->bytes = reason->room + 1000;
    return 1;
  }
  if (has(config, "\"thread\"") && pthread_create(&thread, NULL, wait_for_ever, NULL) == 0) pthread_detach(thread);
  if (has(config, "\"nothing\"")) return 0;
  if (has(config, "\"start\"")) instance->start = start;
  instance->flags = has(config, "\"at once\"") ? 0 : MAITRED_MAY_ANSWER_LATER;
  instance->on_request = on_request;
  instance->on_response = on_response;
  return 0;
}

const maitred_module *maitred_module_v1(void) {
  static const maitred_module module = { sizeof(module), MAITRED_MODULE_VERSION, init };

  return &module;
}
