// HTTP for a server whose answers take their time: requests come to a handler, and their replies are written later,
// from any thread. On libevent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace hone::serve {

struct HttpRequest {
  std::string method, path;   // the path without its query
  std::string authorization;  // the header of that name; "": there is none
  std::string body;
};

// What became of a request, for logs and counts.
struct HttpDone {
  std::string address, method, path;  // the client's address; "-": it was no request that could be read
  int status = 0;                     // kGone: the client left before its answer was written
  double seconds = 0;                 // from its last byte to the answer's last one
  std::int64_t prompt_tokens = -1, generated_tokens = -1;  // below 0: nothing was said of them
  static constexpr int kGone = 499;                        // as other servers' logs have it
};

// To answer one request. Copies answer the same one. Any thread may call it; calls after the end do nothing.
class Reply {
 public:
  struct State;
  explicit Reply(std::shared_ptr<State> state) : state_(std::move(state)) {}
  // The whole answer.
  void send(int status, const std::string& json) const;
  // An answer in parts, as Server-Sent Events.
  void begin_events() const;
  void event(const std::string& data) const;
  void end() const;
  // Any other type than JSON.
  void send_as(int status, const std::string& type, const std::string& body) const;
  // What HttpDone says of tokens. Before the answer's end.
  void count_tokens(std::int64_t prompt, std::int64_t generated) const;
  bool is_gone() const;  // nobody waits for it any longer

 private:
  std::shared_ptr<State> state_;
};

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 0;  // 0: one that is free
  std::size_t most_body = std::size_t{16} << 20;
  std::string allow_origin = {};  // of pages in a browser that may ask; "": none from elsewhere
};

class HttpServer {
 public:
  // In the server's own thread; it must not take long. An answer to HEAD and OPTIONS is the server's own matter.
  using Handler = std::function<void(HttpRequest request, Reply reply)>;
  // In the server's own thread, for each request once; it must not take long.
  using Done = std::function<void(const HttpDone& done)>;
  // Listens from now on. Error(usage): it cannot, at this host and port.
  HttpServer(const HttpOptions& options, Handler handler, Done done = {});
  ~HttpServer();  // closes all connections
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  int port() const;
  // Takes no more connections, and waits until all that was answered is written, so many seconds at most.
  void finish(double seconds);
  struct Core;

 private:
  std::shared_ptr<Core> core_;
};

}  // namespace hone::serve
