/* For tests: a module that does what the query of a request says, step by step, so that the test decides what comes first.
 *
 * `config` may say: reads (it reads bodies), echoes (it answers with the body, whatever the query is), passes (it lets all
 * requests pass whose query says nothing), and `gate`, a FIFO. Tests that have requests wait use one thread. */

#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "maitred_module.h"

#define TICKETS_MAX 1024

static const maitred_server *server;

/* What one configuration has. The rest is shared by all of them, since the library is loaded once. */
typedef struct instance {
  int echoes;
  int passes;
  int gate;
} instance;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;
/* Requests that wait, and those that were released last. */
static maitred_ticket waiting[TICKETS_MAX], released[TICKETS_MAX];
static size_t waiting_count, released_count;
static size_t asked;
static int is_open;
/* Helper threads that stand until it is. */
static unsigned long standing;

static maitred_text text_of(const char *text) {
  maitred_text made;

  made.at = text;
  made.bytes = strlen(text);
  return made;
}

static int is(maitred_text text, const char *wanted) {
  return text.bytes == strlen(wanted) && memcmp(text.at, wanted, text.bytes) == 0;
}

static int has(maitred_text text, const char *wanted) {
  size_t at, bytes = strlen(wanted);

  for (at = 0; at + bytes <= text.bytes; at++) {
    if (memcmp(text.at + at, wanted, bytes) == 0) return 1;
  }
  return 0;
}

static maitred_response response_of(maitred_text content) {
  maitred_response response = { 200, NULL, 0, { NULL, 0 } };

  response.content = content;
  return response;
}

static uint32_t answer(maitred_request *request, maitred_text content) {
  maitred_response response = response_of(content);

  return server->answer(request, &response) ? MAITRED_ANSWERED : MAITRED_FAILED;
}

static uint32_t say(maitred_request *request, unsigned long number) {
  char text[32];

  snprintf(text, sizeof(text), "%lu\n", number);
  return answer(request, text_of(text));
}

static uint32_t wait_for_release(maitred_request *request) {
  maitred_ticket ticket;
  int taken = 0;

  if (!server->later(request, &ticket)) return MAITRED_FAILED;
  pthread_mutex_lock(&lock);
  if (waiting_count < TICKETS_MAX) {
    waiting[waiting_count++] = ticket;
    taken = 1;
  }
  pthread_mutex_unlock(&lock);
  return taken ? MAITRED_LATER : MAITRED_FAILED;
}

/* Answers all that wait, or lets them pass; says how many there were. */
static uint32_t release(maitred_request *request, int passes) {
  maitred_response response = response_of(text_of("released\n"));
  size_t at, count;

  pthread_mutex_lock(&lock);
  count = released_count = waiting_count;
  memcpy(released, waiting, count * sizeof(waiting[0]));
  waiting_count = 0;
  pthread_mutex_unlock(&lock);
  for (at = 0; at < count; at++) {
    if (passes) server->complete_pass(&released[at]);
    else server->complete(&released[at], &response);
  }
  return say(request, count);
}

/* Uses the tickets that were released once more. */
static uint32_t release_once_more(maitred_request *request) {
  maitred_response response = response_of(text_of("stale\n"));
  size_t at;

  for (at = 0; at < released_count; at++) {
    server->complete(&released[at], &response);
    server->complete_pass(&released[at]);
  }
  return say(request, released_count);
}

/* Tickets that are like those of the requests that wait, but for one word. */
static uint32_t forge(maitred_request *request) {
  static const uint64_t differences[] = { 1, 7, (uint64_t)1 << 31, (uint64_t)1 << 32, (uint64_t)1 << 63 };
  maitred_response response = response_of(text_of("forged\n"));
  size_t at, word, which, count = sizeof(differences) / sizeof(differences[0]);

  for (at = 0; at < waiting_count; at++) {
    for (word = 0; word < 3; word++) {
      for (which = 0; which < count; which++) {
        maitred_ticket ticket = waiting[at];

        /* The number has 32 bits; what is above them says nothing. */
        if (word == 2 && which >= 3) continue;
        ticket.words[word] ^= differences[which];
        server->complete(&ticket, &response);
        server->complete_pass(&ticket);
      }
    }
  }
  return say(request, waiting_count);
}

static void stand(void *data) {
  (void)data;
  pthread_mutex_lock(&lock);
  standing++;
  while (!is_open) pthread_cond_wait(&opened, &lock);
  pthread_mutex_unlock(&lock);
}

/* Takes the helper threads, and all places where calls wait for one; says how many of both it has got. */
static uint32_t fill(maitred_request *request) {
  unsigned long count = 0;

  while (server->run(stand, NULL)) count++;
  return say(request, count);
}

static uint32_t say_standing(maitred_request *request) {
  unsigned long count;

  pthread_mutex_lock(&lock);
  count = standing;
  pthread_mutex_unlock(&lock);
  return say(request, count);
}

static uint32_t open_helpers(maitred_request *request) {
  pthread_mutex_lock(&lock);
  is_open = 1;
  pthread_cond_broadcast(&opened);
  pthread_mutex_unlock(&lock);
  return say(request, 0);
}

typedef struct passage {
  maitred_ticket ticket;
  int gate;
} passage;

/* In a helper thread: stands at the FIFO until the test writes a byte. */
static void pass_the_gate(void *data) {
  maitred_response response = response_of(text_of("through the gate\n"));
  passage *through = data;
  char byte;

  if (read(through->gate, &byte, 1) == 1) server->complete(&through->ticket, &response);
  free(through);
}

static uint32_t enter_the_gate(const instance *own, maitred_request *request) {
  passage *through = malloc(sizeof(*through));

  if (through == NULL || !server->later(request, &through->ticket)) {
    free(through);
    return MAITRED_FAILED;
  }
  through->gate = own->gate;
  if (!server->run(pass_the_gate, through)) {
    free(through);
    return MAITRED_FAILED;
  }
  pthread_mutex_lock(&lock);
  asked++;
  pthread_mutex_unlock(&lock);
  return MAITRED_LATER;
}

/* Says what opening a file gives: 0, or the number of the error. */
static uint32_t open_file(maitred_request *request, maitred_text query) {
  char path[512];
  size_t bytes = query.bytes - strlen("open=");
  int file;

  if (bytes >= sizeof(path)) return MAITRED_FAILED;
  memcpy(path, query.at + strlen("open="), bytes);
  path[bytes] = 0;
  file = open(path, O_RDONLY);
  if (file < 0) return say(request, (unsigned long)errno);
  close(file);
  return say(request, 0);
}

/* Version of HTTP, TLS, family of the address. */
static uint32_t say_client(maitred_request *request) {
  maitred_client client;
  char text[64];

  if (!server->client(request, &client)) return MAITRED_FAILED;
  snprintf(text, sizeof(text), "%u %u %u\n", client.http, client.secure, client.family);
  return answer(request, text_of(text));
}

static uint32_t on_request(void *data, maitred_request *request) {
  maitred_text query = server->part(request, MAITRED_QUERY);
  const instance *own = data;

  if (own->echoes) return answer(request, server->part(request, MAITRED_BODY));
  if (is(query, "wait")) return wait_for_release(request);
  if (is(query, "waiting")) return say(request, waiting_count);
  if (is(query, "release")) return release(request, 0);
  if (is(query, "release=pass")) return release(request, 1);
  if (is(query, "stale")) return release_once_more(request);
  if (is(query, "forge")) return forge(request);
  if (is(query, "fill")) return fill(request);
  if (is(query, "standing")) return say_standing(request);
  if (is(query, "open")) return open_helpers(request);
  if (is(query, "gate")) return enter_the_gate(own, request);
  if (is(query, "gates")) return say(request, asked);
  if (is(query, "client")) return say_client(request);
  if (is(query, "failed")) return MAITRED_FAILED;
  if (has(query, "open=")) return open_file(request, query);
  if (is(query, "echo")) return answer(request, server->part(request, MAITRED_BODY));
  if (own->passes) return MAITRED_PASS;
  return answer(request, text_of("the probe\n"));
}

/* The value of `gate` in JSON without blanks; the paths of tests have nothing that is escaped. */
static int open_gate(maitred_text config, int *gate) {
  static const char key[] = "\"gate\":\"";
  char path[512];
  size_t at, bytes = 0;

  for (at = 0; at + sizeof(key) - 1 <= config.bytes && memcmp(config.at + at, key, sizeof(key) - 1) != 0; at++) {}
  for (at += sizeof(key) - 1; at < config.bytes && config.at[at] != '"' && bytes + 1 < sizeof(path); at++) {
    path[bytes++] = config.at[at];
  }
  path[bytes] = 0;
  /* For both: otherwise it would wait for a writer. */
  *gate = open(path, O_RDWR);
  return *gate >= 0;
}

static int init(const maitred_server *given, maitred_text config, maitred_instance *made, maitred_reason *reason) {
  instance *own = calloc(1, sizeof(*own));

  (void)reason;
  server = given;
  if (own == NULL || (has(config, "\"gate\"") && !open_gate(config, &own->gate))) {
    free(own);
    return 1;
  }
  own->echoes = has(config, "\"echoes\"");
  own->passes = has(config, "\"passes\"");
  made->flags = MAITRED_MAY_ANSWER_LATER | (has(config, "\"reads\"") ? MAITRED_READS_BODY : 0);
  made->data = own;
  made->on_request = on_request;
  return 0;
}

const maitred_module *maitred_module_v1(void) {
  static const maitred_module module = { sizeof(module), MAITRED_MODULE_VERSION, init };

  return &module;
}
