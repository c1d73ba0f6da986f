// What all that is served has in common: who may ask, what there is, and errors in the form of OpenAI's API.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "serve/http.h"
#include "serve/request.h"

namespace hone::serve {

struct FrontOptions {
  std::string name = {};        // the model's
  std::int64_t max_length = 0;  // tokens that it takes
  std::string api_key = {};     // "": none is asked for
};

class Front {
 public:
  // Requests that go to the model: a path, to which they are POSTed, and who takes them there. May throw Refused.
  struct Route {
    std::string path;
    std::function<void(const HttpRequest& request, const Reply& reply)> take;
  };
  Front(FrontOptions options, std::vector<Route> routes);
  // For HttpServer, in its thread. Whatever a request does, it gets a reply, and the server goes on.
  void handle(const HttpRequest& request, const Reply& reply) const;
  std::int64_t started() const { return started_; }  // seconds since 1970

 private:
  void answer(const HttpRequest& request, const Reply& reply) const;

  FrontOptions options_;
  std::vector<Route> routes_;
  std::int64_t started_;
};

void refuse(const Reply& reply, const Refused& why);

// A request's body. Throws Refused.
nlohmann::ordered_json body_of(const HttpRequest& request);

}  // namespace hone::serve
