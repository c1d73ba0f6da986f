// HTTP for a server whose answers take their time: requests come to a handler, and their replies are written later,
// from any thread. On libevent.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace hone::serve {

struct HttpRequest {
  std::string method, path;   // the path without its query
  std::string authorization;  // the header of that name; "": there is none
  std::string body;
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
  // Listens from now on. Error(usage): it cannot, at this host and port.
  HttpServer(const HttpOptions& options, Handler handler);
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
