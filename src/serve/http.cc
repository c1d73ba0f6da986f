// One thread has libevent's loop and all that belongs to it; others hand it what is to be done.
#include "serve/http.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <event2/thread.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/signals.h"
#include "base/strings.h"
#include "hone/error.h"
#include "serve/reply_json.h"

namespace hone::serve {
namespace {

template <class T, void (*Free)(T*)>
struct Freed {
  void operator()(T* x) const { Free(x); }
};
using Base = std::unique_ptr<event_base, Freed<event_base, event_base_free>>;
using Http = std::unique_ptr<evhttp, Freed<evhttp, evhttp_free>>;
using Event = std::unique_ptr<event, Freed<event, event_free>>;
using Buffer = std::unique_ptr<evbuffer, Freed<evbuffer, evbuffer_free>>;

constexpr int kIdleSeconds = 60;  // of a connection that says nothing
constexpr std::size_t kMostHeaders = 64 << 10;
constexpr std::size_t kMostPage = 4 << 10;  // of libevent's own pages, which are some hundred bytes
constexpr timeval kLookEvery{0, 500000};  // whether those who wait are still there

const char* method_of(evhttp_request* request) {
  switch (evhttp_request_get_command(request)) {
    case EVHTTP_REQ_GET:
      return "GET";
    case EVHTTP_REQ_POST:
      return "POST";
    case EVHTTP_REQ_HEAD:
      return "HEAD";
    case EVHTTP_REQ_PUT:
      return "PUT";
    case EVHTTP_REQ_DELETE:
      return "DELETE";
    case EVHTTP_REQ_OPTIONS:
      return "OPTIONS";
    default:
      return "another method";
  }
}

std::string header_of(evhttp_request* request, const char* name) {
  const char* value = evhttp_find_header(evhttp_request_get_input_headers(request), name);
  return value ? value : "";
}

std::string path_of(evhttp_request* request) {
  const evhttp_uri* uri = evhttp_request_get_evhttp_uri(request);
  const char* path = uri ? evhttp_uri_get_path(uri) : nullptr;
  return path && *path ? path : "/";
}

std::string body_of(evhttp_request* request) {
  evbuffer* buffer = evhttp_request_get_input_buffer(request);
  std::string body(evbuffer_get_length(buffer), '\0');
  evbuffer_copyout(buffer, body.data(), body.size());
  return body;
}

std::string address_of(evhttp_request* request) {
  char* address = nullptr;
  ev_uint16_t port = 0;
  evhttp_connection_get_peer(evhttp_request_get_connection(request), &address, &port);
  return address ? address : "-";
}

// The connection was closed at its other end. What is yet to be read stays there.
bool is_closed(evhttp_request* request) {
  bufferevent* connection = evhttp_connection_get_bufferevent(evhttp_request_get_connection(request));
  char byte;
  const ssize_t got = recv(bufferevent_getfd(connection), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

// Requests that somebody in between may have read otherwise, and bodies that are not what they seem; null: neither.
const char* refused(evhttp_request* request) {
  int lengths = 0;
  const evkeyvalq* headers = evhttp_request_get_input_headers(request);
  for (const evkeyval* one = headers->tqh_first; one; one = one->next.tqe_next)
    lengths += evutil_ascii_strcasecmp(one->key, "Content-Length") == 0 ||
               evutil_ascii_strcasecmp(one->key, "Transfer-Encoding") == 0;
  if (lengths > 1) return "More than one length of the body";
  const std::string encoding = header_of(request, "Content-Encoding");
  return encoding.empty() || encoding == "identity" ? nullptr : "Content-Encoding: bodies are read as they are";
}

void require_address(const std::string& host) {
  evutil_addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM, hints.ai_flags = EVUTIL_AI_PASSIVE;
  const int error = evutil_getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (found) evutil_freeaddrinfo(found);
  if (error != 0)
    throw Error(ErrorKind::usage, fmt::format("cannot listen at {}: {}", host, evutil_gai_strerror(error)));
}

int port_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace

struct HttpServer::Core : std::enable_shared_from_this<Core> {
  HttpOptions options;
  Handler handler;
  Done done;
  Base base;
  Http http;
  Event wake, look;
  evhttp_bound_socket* socket = nullptr;
  int port = 0;
  std::thread thread;
  std::set<std::shared_ptr<Reply::State>> open;  // not written yet; the loop's own
  std::mutex mutex;                              // of what follows
  std::condition_variable fewer;
  std::size_t unwritten = 0;  // as many as are open
  bool ended = false;
  std::vector<std::function<void()>> to_do;

  void listen();
  void post(std::function<void()> what);
  void do_all();
  void take(evhttp_request* request);
  void refuse(evhttp_request* request, int status, const char* why);
  void tell(const HttpDone& what) const {
    if (done) done(what);
  }
  void replace_page(evbuffer* out) const;
  void forget(Reply::State* state);
  void look_after_all();
  void end();
};

struct Reply::State {
  std::shared_ptr<HttpServer::Core> core;
  std::atomic<bool> gone = false;
  // The loop's own. Null: it is written, or nobody waits.
  evhttp_request* request = nullptr;
  bool ended = false;
  HttpDone done = {};
  Stopwatch watch = {};
  std::atomic<std::int64_t> prompt_tokens = -1, generated_tokens = -1;
};

namespace {

void add_headers(evhttp_request* request, const HttpOptions& options, const char* type) {
  evkeyvalq* headers = evhttp_request_get_output_headers(request);
  if (*type) evhttp_add_header(headers, "Content-Type", type);
  if (options.allow_origin.empty()) return;
  evhttp_add_header(headers, "Access-Control-Allow-Origin", options.allow_origin.c_str());
  evhttp_add_header(headers, "Access-Control-Allow-Headers", "Authorization, Content-Type");
  evhttp_add_header(headers, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
}

Buffer buffer_of(std::string_view text) {
  Buffer buffer(evbuffer_new());
  evbuffer_add(buffer.get(), text.data(), text.size());
  return buffer;
}

}  // namespace

void HttpServer::Core::post(std::function<void()> what) {
  const std::lock_guard lock(mutex);
  if (ended) return;
  to_do.push_back(std::move(what));
  event_active(wake.get(), 0, 0);
}

void HttpServer::Core::do_all() {
  std::vector<std::function<void()>> now;
  {
    const std::lock_guard lock(mutex);
    now.swap(to_do);
  }
  for (const auto& one : now) one();
}

// Its reply is written, or its connection is closed; the request is libevent's again.
void HttpServer::Core::forget(Reply::State* state) {
  const auto found = std::find_if(open.begin(), open.end(), [&](const auto& one) { return one.get() == state; });
  if (found == open.end()) return;
  const std::shared_ptr<Reply::State> held = *found;
  held->request = nullptr;
  held->gone = true;
  open.erase(found);
  HttpDone& what = held->done;
  if (!held->ended) what.status = HttpDone::kGone;
  what.seconds = held->watch.seconds();
  what.prompt_tokens = held->prompt_tokens, what.generated_tokens = held->generated_tokens;
  tell(what);
  const std::lock_guard lock(mutex);
  --unwritten;
  fewer.notify_all();
}

// Its end of a connection whose other end is closed: libevent, which reads nothing meanwhile, would keep it for ever.
void HttpServer::Core::look_after_all() {
  std::vector<evhttp_connection*> closed;
  for (const auto& state : open)
    if (is_closed(state->request)) closed.push_back(evhttp_request_get_connection(state->request));
  for (evhttp_connection* connection : closed) evhttp_connection_free(connection);  // forget() is called for each
}

void HttpServer::Core::refuse(evhttp_request* request, int status, const char* why) {
  add_headers(request, options, "application/json");
  evhttp_add_header(evhttp_request_get_output_headers(request), "Connection", "close");
  tell({address_of(request), method_of(request), path_of(request), status});
  evhttp_send_reply(request, status, nullptr, buffer_of(dumped(error_of(Refused(status, why)))).get());
}

// What libevent refuses itself, before anybody sees it, it answers with a page of HTML, and its version 2.1 asks nobody
// for another one. While the page waits to be written it becomes what all errors are here.
void HttpServer::Core::replace_page(evbuffer* out) const {
  std::string page(std::min(evbuffer_get_length(out), kMostPage), '\0');
  evbuffer_copyout(out, page.data(), page.size());
  if (!page.starts_with("HTTP/1.") || !page.ends_with("</HTML>\n")) return;
  const std::string line = page.substr(0, page.find("\r\n"));  // HTTP/1.1 413 Request Entity Too Large
  const std::vector<std::string> words = split(line, ' ');
  const int status = words.size() > 1 ? static_cast<int>(parse_int(words[1]).value_or(400)) : 400;
  tell({"-", "-", "-", status});
  const std::string why = status == 413 ? fmt::format("the body: expected at most {} bytes", options.most_body)
                                        : fmt::format("the request: {}", line.substr(line.find(' ') + 1));
  const std::string json = dumped(error_of(Refused(status, why)));
  const std::string origin =
      options.allow_origin.empty() ? "" : "Access-Control-Allow-Origin: " + options.allow_origin + "\r\n";
  evbuffer_unfreeze(out, 1);  // at its front, where the socket alone takes from it
  evbuffer_drain(out, page.size());
  evbuffer_freeze(out, 1);
  const std::string made = fmt::format(
      "{}\r\n{}Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}", line, origin,
      json.size(), json);
  evbuffer_add(out, made.data(), made.size());
}

void HttpServer::Core::take(evhttp_request* request) {
  HttpRequest made{method_of(request), path_of(request), header_of(request, "Authorization"), body_of(request)};
  if (made.method == "OPTIONS") {
    add_headers(request, options, "");
    tell({address_of(request), made.method, made.path, 204});
    return evhttp_send_reply(request, 204, nullptr, nullptr);
  }
  if (const char* why = refused(request)) return refuse(request, *why == 'C' ? 415 : 400, why);
  const auto state = std::make_shared<Reply::State>();
  state->core = shared_from_this(), state->request = request;
  state->done = {address_of(request), made.method, made.path};
  open.insert(state);
  {
    const std::lock_guard lock(mutex);
    ++unwritten;
  }
  evhttp_connection_set_closecb(
      evhttp_request_get_connection(request),
      [](evhttp_connection*, void* one) {
        auto* held = static_cast<Reply::State*>(one);
        held->core->forget(held);
      },
      state.get());
  evhttp_request_set_on_complete_cb(
      request,
      [](evhttp_request* written, void* one) {
        auto* held = static_cast<Reply::State*>(one);
        evhttp_connection_set_closecb(evhttp_request_get_connection(written), nullptr, nullptr);
        held->core->forget(held);
      },
      state.get());
  handler(std::move(made), Reply(state));
}

void HttpServer::Core::listen() {
  static const bool threads_are_told = evthread_use_pthreads() == 0;
  base.reset(event_base_new());
  http.reset(base ? evhttp_new(base.get()) : nullptr);
  if (!threads_are_told || !http) throw Error(ErrorKind::usage, "HTTP: there is no event loop to be had");
  require_address(options.host);
  evhttp_set_max_body_size(http.get(), static_cast<ev_ssize_t>(options.most_body));
  evhttp_set_max_headers_size(http.get(), kMostHeaders);
  evhttp_set_timeout(http.get(), kIdleSeconds);
  evhttp_set_allowed_methods(http.get(), EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD | EVHTTP_REQ_PUT |
                                             EVHTTP_REQ_DELETE | EVHTTP_REQ_OPTIONS);
  evhttp_set_gencb(
      http.get(), [](evhttp_request* request, void* self) { static_cast<Core*>(self)->take(request); }, this);
  evhttp_set_bevcb(
      http.get(),
      [](event_base* loop, void* self) {
        bufferevent* connection = bufferevent_socket_new(loop, -1, 0);
        const evbuffer_cb_func look_at = [](evbuffer* out, const evbuffer_cb_info* change, void* core) {
          if (change->n_added > 0) static_cast<const Core*>(core)->replace_page(out);
        };
        if (connection) evbuffer_add_cb(bufferevent_get_output(connection), look_at, self);
        return connection;
      },
      this);
  socket = evhttp_bind_socket_with_handle(http.get(), options.host.c_str(), static_cast<ev_uint16_t>(options.port));
  if (!socket)
    throw Error(ErrorKind::usage,
                fmt::format("cannot listen at {}, port {}: {}", options.host, options.port, std::strerror(errno)));
  port = port_of(evhttp_bound_socket_get_fd(socket));
  wake.reset(event_new(
      base.get(), -1, EV_PERSIST, [](int, short, void* self) { static_cast<Core*>(self)->do_all(); }, this));
  look.reset(event_new(
      base.get(), -1, EV_PERSIST, [](int, short, void* self) { static_cast<Core*>(self)->look_after_all(); }, this));
  event_add(look.get(), &kLookEvery);
}

// The loop has ended.
void HttpServer::Core::end() {
  {
    const std::lock_guard lock(mutex);
    ended = true;
    to_do.clear();
  }
  http.reset();  // closes connections, which are told of
  for (const auto& state : open) state->request = nullptr, state->gone = true;
  open.clear();
  wake.reset(), look.reset(), base.reset();
}

HttpServer::HttpServer(const HttpOptions& options, Handler handler, Done done) : core_(std::make_shared<Core>()) {
  core_->options = options, core_->handler = std::move(handler), core_->done = std::move(done);
  core_->listen();
  const BlockSignals none_for_the_loop;
  core_->thread = std::thread([core = core_.get()] { event_base_loop(core->base.get(), EVLOOP_NO_EXIT_ON_EMPTY); });
}

HttpServer::~HttpServer() {
  core_->post([core = core_.get()] { event_base_loopbreak(core->base.get()); });
  core_->thread.join();
  core_->end();
}

int HttpServer::port() const { return core_->port; }

void HttpServer::finish(double seconds) {
  core_->post([core = core_.get()] {
    if (core->socket) evhttp_del_accept_socket(core->http.get(), std::exchange(core->socket, nullptr));
  });
  std::unique_lock lock(core_->mutex);
  core_->fewer.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return core_->unwritten == 0; });
}

bool Reply::is_gone() const { return state_->gone; }

void Reply::send(int status, const std::string& json) const { send_as(status, "application/json", json); }

void Reply::send_as(int status, const std::string& type, const std::string& body) const {
  state_->core->post([state = state_, status, type, body] {
    if (!state->request || std::exchange(state->ended, true)) return;
    state->done.status = status;
    add_headers(state->request, state->core->options, type.c_str());
    const bool with_body = evhttp_request_get_command(state->request) != EVHTTP_REQ_HEAD;
    evhttp_send_reply(state->request, status, nullptr, with_body ? buffer_of(body).get() : nullptr);
  });
}

void Reply::count_tokens(std::int64_t prompt, std::int64_t generated) const {
  state_->prompt_tokens = prompt, state_->generated_tokens = generated;
}

void Reply::begin_events() const {
  state_->core->post([state = state_] {
    if (!state->request || state->ended) return;
    state->done.status = 200;
    add_headers(state->request, state->core->options, "text/event-stream");
    evhttp_add_header(evhttp_request_get_output_headers(state->request), "Cache-Control", "no-cache");
    evhttp_send_reply_start(state->request, 200, nullptr);
  });
}

void Reply::event(const std::string& data) const {
  state_->core->post([state = state_, text = "data: " + data + "\n\n"] {
    if (state->request && !state->ended) evhttp_send_reply_chunk(state->request, buffer_of(text).get());
  });
}

void Reply::end() const {
  state_->core->post([state = state_] {
    if (state->request && !std::exchange(state->ended, true)) evhttp_send_reply_end(state->request);
  });
}

}  // namespace hone::serve
