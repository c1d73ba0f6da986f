// What all that is served has in common: who may ask, what there is, and errors in the form of OpenAI's API.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "serve/http.h"
#include "serve/metrics.h"
#include "serve/refused.h"
#include "serve/request.h"

namespace hone::serve {

struct FrontOptions {
  std::string name = {};        // the model's
  std::int64_t max_length = 0;  // tokens that it takes
  std::string api_key = {};     // "": none is asked for
  bool log_requests = false;    // a line for each, but for probes that found what they looked for
};

class Front {
 public:
  // A path, to which requests are POSTed, and who takes them there. May throw Refused.
  struct Route {
    std::string path;
    std::function<void(const HttpRequest& request, const Reply& reply)> take;
    bool is_models = true;  // the model's to answer; else it is answered at once
  };
  Front(FrontOptions options, std::vector<Route> routes);
  // For HttpServer, in its thread. Whatever a request does, it gets a reply, and the server goes on.
  void handle(const HttpRequest& request, const Reply& reply) const;
  // For HttpServer: counts the request, and writes its line.
  void done(const HttpDone& done);
  // From now on probes are told that the server is about to end: who balances a load sends it nothing more.
  void end() { is_ending_ = true; }
  Metrics& metrics() { return metrics_; }
  std::int64_t started() const { return started_; }  // seconds since 1970

 private:
  void answer(const HttpRequest& request, const Reply& reply) const;

  std::vector<std::string> all_paths() const;

  FrontOptions options_;
  std::vector<Route> routes_;
  Metrics metrics_;
  std::int64_t started_;
  std::atomic<bool> is_ending_ = false;
};

void refuse(const Reply& reply, const Refused& why);

// A request's body. Throws Refused.
nlohmann::ordered_json body_of(const HttpRequest& request);

}  // namespace hone::serve
