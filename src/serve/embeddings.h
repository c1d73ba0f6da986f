// Texts become vectors: what OpenAI's API has at /v1/embeddings.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hone/module.h"
#include "hone/text.h"
#include "serve/front.h"

namespace hone::serve {

template <class Job>
class Waiting;

using Ids = std::vector<std::int32_t>;

// What is served. All functions but `vectors` are called in the server's thread.
struct Embeds {
  FrontOptions front = {};
  std::int64_t width = 0;         // numbers of a whole vector
  std::int64_t texts = 32;        // of a pass
  std::int64_t queue = 256;       // requests that may wait
  std::int64_t most_texts = 2048;  // of a request
  std::int64_t vocab_size = 0;
  std::shared_ptr<const Tokenizer> tokenizer = {};  // for who asks for tokens alone
  // What stands before a text, by its name; "": what the model's folder says. Throws Error.
  std::function<std::string(const std::string& name)> prompt;
  // A text's tokens, with what stands before it; as many as it has, or as there is room for where it may be cut, which
  // the flag says. `where`: which one it is, for errors. Throws Error.
  std::function<Ids(const std::string& text, const std::string& prompt, bool may_cut, const std::string& where)> tokens;
  // [texts, dims] on the host, in fp32; no dims: as the model's folder says. In run()'s thread.
  std::function<Tensor(const std::vector<Ids>& texts, std::optional<std::int64_t> dims)> vectors;
};

class EmbeddingService {
 public:
  explicit EmbeddingService(Embeds embeds);
  ~EmbeddingService();
  // For HttpServer, in its thread: tokens are made there, vectors by run().
  void handle(const HttpRequest& request, const Reply& reply) const { front_.handle(request, reply); }
  void done(const HttpDone& done) { front_.done(done); }
  // Makes vectors until stop() says so. What waits then is refused.
  void run(const std::function<bool()>& stop);

 private:
  struct Job;
  std::vector<Front::Route> routes();
  void accept(const HttpRequest& request, const Reply& reply);
  void embed(const std::vector<std::shared_ptr<Job>>& jobs);

  Embeds embeds_;
  Front front_;
  std::unique_ptr<Waiting<Job>> waiting_;
};

}  // namespace hone::serve
