// Pairs of texts get scores: /v1/rerank, as Jina, Cohere and vLLM have it, and vLLM's /v1/score.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hone/text.h"
#include "serve/front.h"

namespace hone::serve {

template <class Job>
class Waiting;

// Two texts as a cross-encoder reads them.
struct ScoredPair {
  std::vector<std::int32_t> ids;
  std::size_t second = 0;  // where tokens of the second kind begin; as many as ids: nowhere
  bool is_cut = false;     // more of them was there than the model takes
};

// What is served. All functions but `scores` are called in the server's thread.
struct Scores {
  FrontOptions front = {};
  std::int64_t pairs = 32;         // of a pass
  std::int64_t queue = 256;        // requests that may wait
  std::int64_t most_texts = 2048;  // of a request
  std::shared_ptr<const Tokenizer> tokenizer = {};  // for who asks for tokens alone
  // As far as there is room. `where`: which of the texts it is, for errors. Throws Error.
  std::function<ScoredPair(const std::string& query, const std::string& document, const std::string& where)> read;
  // One of each pair, before an activation, in run()'s thread.
  std::function<std::vector<double>(const std::vector<ScoredPair>& pairs)> scores;
  bool shows_sigmoid = false;  // by which scores are shown
};

class RerankService {
 public:
  explicit RerankService(Scores scores);
  ~RerankService();
  // For HttpServer, in its thread: tokens are made there, scores by run().
  void handle(const HttpRequest& request, const Reply& reply) const { front_.handle(request, reply); }
  void done(const HttpDone& done) { front_.done(done); }
  // Makes scores until stop() says so. What waits then is refused.
  void run(const std::function<bool()>& stop);

 private:
  struct Job;
  std::vector<Front::Route> routes();
  void accept_ranking(const HttpRequest& request, const Reply& reply);
  void accept_pairs(const HttpRequest& request, const Reply& reply);
  std::shared_ptr<Job> make_job(const Reply& reply);
  void add(const std::shared_ptr<Job>& job);
  void score(const std::vector<std::shared_ptr<Job>>& jobs);

  Scores scores_;
  Front front_;
  std::unique_ptr<Waiting<Job>> waiting_;
  std::uint64_t jobs_ = 0;  // the server's thread's own
};

}  // namespace hone::serve
