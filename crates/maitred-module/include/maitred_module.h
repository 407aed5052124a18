/* The interface between Maitred and a module: a shared library that the worker process loads, and whose functions it calls in its
 * event loops.
 *
 * A module exports one function, maitred_module_v1(), which gives back a description that stays as it is. Its functions are
 * called by several threads at the same time, each for a request of its own. They must not wait: a request whose answer takes
 * longer is answered later (maitred_server.later, maitred_server.run).
 *
 * Memory does not change hands. What the server shows (texts, fields) is good until the call that it was given to returns; what
 * it shows of the head of a response, until the next maitred_server.edit. What a module gives (responses, texts) is copied before
 * the call that takes it returns.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0 */

#ifndef MAITRED_MODULE_H
#define MAITRED_MODULE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. A server refuses a module of another one. Within a version, structures that begin with `bytes`
 * may grow at their end: that member says how many bytes of them there are. All others stay as they are. */
#define MAITRED_MODULE_VERSION 1u

/* Bytes that do not end with a 0. */
typedef struct maitred_text {
  const char *at;
  size_t bytes;
} maitred_text;

/* A field of a request or of a response. */
typedef struct maitred_field {
  maitred_text name;
  maitred_text value;
} maitred_field;

/* A request, during a call that is about it. */
typedef struct maitred_request maitred_request;

/* The head of a response, during a call that is about it. */
typedef struct maitred_head maitred_head;

/* What maitred_server.part can be asked for. */
enum {
  MAITRED_METHOD = 0,
  /* As the client has sent it, with its query. After `rewrite`: what that made of it. */
  MAITRED_TARGET = 1,
  /* The path, decoded: what routes are chosen by. May hold any byte but 0. */
  MAITRED_PATH = 2,
  /* What follows the first `?`, not decoded; empty without one. */
  MAITRED_QUERY = 3,
  /* The host and the port, as the client names them. */
  MAITRED_AUTHORITY = 4,
  /* The whole body, if the instance has MAITRED_READS_BODY and is what the route answers with; otherwise empty. */
  MAITRED_BODY = 5
};

/* Where a request comes from. */
typedef struct maitred_client {
  /* An IPv6 address, or an IPv4 one in the first four bytes. */
  uint8_t address[16];
  /* 4, 6, or 0 for a Unix socket. */
  uint8_t family;
  /* 1 over TLS, also if a trusted proxy ends it. */
  uint8_t secure;
  /* 10, 11, 20 or 30 for HTTP/1.0, 1.1, 2 and 3. */
  uint8_t http;
  uint8_t unused;
  /* 0 where it is not known. */
  uint16_t port;
} maitred_client;

/* A response. Content-Length, Date, Connection and what else frames a message are the server's: such fields are left out. So is
 * Content-Type if there is content and no such field (application/octet-stream). */
typedef struct maitred_response {
  /* 200 to 599 */
  uint16_t status;
  const maitred_field *fields;
  size_t field_count;
  maitred_text content;
} maitred_response;

/* A request that is answered later. Any thread may use it, once. */
typedef struct maitred_ticket {
  uint64_t words[3];
} maitred_ticket;

/* What maitred_instance.on_request gives back. */
enum {
  /* maitred_server.answer was called. */
  MAITRED_ANSWERED = 0,
  /* What the route says besides answers, or the next module. With nothing else: 404. */
  MAITRED_PASS = 1,
  /* maitred_server.later was called. */
  MAITRED_LATER = 2,
  /* The module could not do it; it has logged why. The client gets 500. */
  MAITRED_FAILED = 3
};

/* How maitred_server.edit changes a field. */
enum {
  /* In place of all fields of this name. */
  MAITRED_SET = 0,
  /* Besides those that are there. */
  MAITRED_ADD = 1,
  /* All of this name; the value is not looked at. */
  MAITRED_REMOVE = 2
};

/* How loud maitred_server.log is. */
enum { MAITRED_ERROR = 0, MAITRED_WARN = 1, MAITRED_INFO = 2, MAITRED_DEBUG = 3 };

/* What the server offers, for as long as the process lives. Functions that give back an int say 1 if they did it, and 0 if they
 * did not: what they were given breaks a rule of HTTP, or is of no use any more. */
typedef struct maitred_server {
  uint32_t bytes;
  uint32_t version;

  /* About a request, in the calls that it is given to. */
  maitred_text (*part)(const maitred_request *, uint32_t which);
  /* The first field of this name, whatever its case. */
  int (*field)(const maitred_request *, maitred_text name, maitred_text *value);
  size_t (*field_count)(const maitred_request *);
  int (*field_at)(const maitred_request *, size_t index, maitred_field *field);
  int (*client)(const maitred_request *, maitred_client *client);

  /* In on_request. */
  int (*answer)(maitred_request *, const maitred_response *);
  /* Only of an instance with MAITRED_MAY_ANSWER_LATER. */
  int (*later)(maitred_request *, maitred_ticket *ticket);
  /* A field for what the request goes on to. Its name has to be among `request_fields` of the configuration. */
  int (*set_request_field)(maitred_request *, maitred_text name, maitred_text value);

  /* In any thread, at any time, once for a ticket. 0: it is no valid response, for which the client gets 500; or the request is
   * known to have ended meanwhile. After 1 it may have ended as well. */
  int (*complete)(const maitred_ticket *, const maitred_response *);
  int (*complete_pass)(const maitred_ticket *);
  /* Has a helper thread call this, in turn. 0: too many wait already; it is not called. */
  int (*run)(void (*task)(void *), void *data);
  void (*log)(uint32_t level, maitred_text text);

  /* About the head of a response, in on_response. */
  uint16_t (*status)(const maitred_head *);
  int (*head_field)(const maitred_head *, maitred_text name, maitred_text *value);
  size_t (*head_field_count)(const maitred_head *);
  int (*head_field_at)(const maitred_head *, size_t index, maitred_field *field);
  int (*edit)(maitred_head *, uint32_t how, maitred_text name, maitred_text value);
} maitred_server;

/* Where a module writes why it cannot begin: at most so many bytes; it sets how many there are. */
typedef struct maitred_reason {
  char *at;
  size_t room;
  size_t bytes;
} maitred_reason;

/* maitred_instance.flags: on_request is called when the body of the request is whole. */
#define MAITRED_READS_BODY 1u
/* on_request may give back MAITRED_LATER. */
#define MAITRED_MAY_ANSWER_LATER 2u

/* A module with a configuration. */
typedef struct maitred_instance {
  /* Set by the server. */
  uint32_t bytes;
  uint32_t flags;
  /* What all other calls get. */
  void *data;
  /* NULL, if there is an on_response. One of MAITRED_ANSWERED, MAITRED_PASS, MAITRED_LATER, MAITRED_FAILED. */
  uint32_t (*on_request)(void *data, maitred_request *request);
  /* NULL, if there is an on_request. The head of each final response of the route, before it is sent. */
  void (*on_response)(void *data, const maitred_request *request, maitred_head *head);
  /* NULL, or called once when the process is confined: threads can be started here. 0 if all is well. */
  int (*start)(void *data, maitred_reason *reason);
} maitred_instance;

/* What a module is. */
typedef struct maitred_module {
  uint32_t bytes;
  /* MAITRED_MODULE_VERSION */
  uint32_t version;
  /* Called once for each different `config`, an object of JSON, before the process is confined to its files: others can be
   * opened here, and no thread may be started. 0 if all is well, and then `instance`, which the server has filled with zeros, says
   * what to call. Otherwise `reason` says what is wrong. */
  int (*init)(const maitred_server *, maitred_text config, maitred_instance *instance, maitred_reason *reason);
} maitred_module;

/* The one function that a module exports, also if it is compiled with -fvisibility=hidden. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const maitred_module *maitred_module_v1(void);

#ifdef __cplusplus
}
#endif

#endif
