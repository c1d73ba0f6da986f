#include "serve/rerank.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/clock.h"
#include "serve/fields.h"
#include "serve/passes.h"
#include "serve/reply_json.h"
#include "serve/tokens.h"

namespace hone::serve {
namespace {

using nlohmann::ordered_json;

constexpr const char *kDocuments = "documents", *kFirst = "text_1", *kSecond = "text_2";

// How scores are wanted, and what is done with texts that are too long.
struct ScoreWish {
  bool sigmoid = false, may_cut = false;
};

ScoreWish read_wish(Fields& fields, const Scores& scores) {
  require_model(fields, scores.front.name);
  ScoreWish wish;
  // One name is vLLM's, the other of text-embeddings-inference.
  const bool raw = fields.flag("raw_scores", false), activates = fields.flag("use_activation", !raw);
  if (activates == raw && fields.find("raw_scores") && fields.find("use_activation"))
    throw Refused(400, fmt::format("use_activation: got {0} beside raw_scores: {0}, which says the opposite; expected "
                                   "one of them",
                                   raw),
                  "use_activation", "invalid_value");
  wish.sigmoid = scores.shows_sigmoid && activates && !raw;
  fields.only("truncate_prompt_tokens", {-1}, "-1 cuts what is longer than the model takes");
  wish.may_cut = fields.find("truncate_prompt_tokens") != nullptr;
  fields.pass_over({"user"});
  return wish;
}

// A text, or {"text": a text}.
std::string text_of(const ordered_json& one, const std::string& where, const char* param) {
  const ordered_json* text = &one;
  if (one.is_object() && one.size() == 1 && one.contains("text")) text = &one["text"];
  if (!text->is_string()) throw Refused(400, where + ": expected a text, or an object with a text", param);
  return text->get<std::string>();
}

void require_count(const char* name, std::size_t count, const Scores& scores) {
  if (count > 0 && static_cast<std::int64_t>(count) <= scores.most_texts) return;
  throw Refused(400, fmt::format("{}: got {} texts, expected 1 to {}", name, count, scores.most_texts), name);
}

std::vector<std::string> texts_of(Fields& fields, const char* name, const Scores& scores) {
  const ordered_json* given = fields.find(name);
  if (!given) throw Refused(400, fmt::format("{}: missing", name), name);
  if (!given->is_array()) return {text_of(*given, name, name)};
  require_count(name, given->size(), scores);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < given->size(); ++i)
    texts.push_back(text_of((*given)[i], fmt::format("{}[{}]", name, i), name));
  return texts;
}

ScoredPair pair_of(const Scores& scores, const std::string& query, const std::string& document, const ScoreWish& wish,
                   const char* param, std::size_t i) {
  const std::string where = fmt::format("{}[{}]", param, i);
  ScoredPair pair;
  try {
    pair = scores.read(query, document, where);
  } catch (const Error& error) {
    throw Refused(400, error.what(), param);
  }
  if (pair.is_cut && !wish.may_cut)
    throw Refused(400,
                  fmt::format("{}: more than {} tokens with the text before it; truncate_prompt_tokens: -1 cuts what "
                              "is too long",
                              where, scores.front.max_length),
                  param, "context_length_exceeded");
  return pair;
}

}  // namespace

struct RerankService::Job {
  Reply reply;
  std::string id;
  const std::string* model = nullptr;  // its name
  ScoreWish wish = {};
  bool ranks = false, with_documents = false;
  std::size_t most = 0;                       // results
  std::vector<std::string> documents = {};    // where they are to be shown
  std::vector<ScoredPair> texts = {};
  std::vector<double> scores = {};
  std::int64_t tokens = 0, open = 0;  // of all pairs; pairs without a score
  std::size_t length(std::size_t text) const { return texts[text].ids.size(); }
  void finish();
  ordered_json ranking() const;
  ordered_json list() const;
};

RerankService::RerankService(Scores scores)
    : scores_(std::move(scores)),
      front_(scores_.front, routes()),
      waiting_(std::make_unique<Waiting<Job>>(scores_.queue)) {
  front_.metrics().gauge("hone_requests_waiting", "Requests that wait for the model.",
                         [this] { return static_cast<double>(waiting_->size()); });
}
RerankService::~RerankService() = default;

std::vector<Front::Route> RerankService::routes() {
  std::vector<Front::Route> routes;
  for (const char* path : {"/v1/rerank", "/rerank", "/v2/rerank"})
    routes.push_back({path, [this](const auto& request, const auto& reply) { accept_ranking(request, reply); }});
  for (const char* path : {"/v1/score", "/score"})
    routes.push_back({path, [this](const auto& request, const auto& reply) { accept_pairs(request, reply); }});
  const Tokenized tokenized{
      .name = scores_.front.name, .max_length = scores_.front.max_length, .tokenizer = scores_.tokenizer};
  for (Front::Route& route : token_routes(tokenized)) routes.push_back(std::move(route));
  return routes;
}

std::shared_ptr<RerankService::Job> RerankService::make_job(const Reply& reply) {
  return std::make_shared<Job>(
      Job{reply, fmt::format("{:x}-{}", front_.started(), ++jobs_), &scores_.front.name});
}

void RerankService::accept_ranking(const HttpRequest& request, const Reply& reply) {
  const ordered_json body = body_of(request);
  Fields fields(body);
  const auto job = make_job(reply);
  job->ranks = true, job->wish = read_wish(fields, scores_);
  const ordered_json* query = fields.find("query");
  if (!query) throw Refused(400, "query: missing", "query");
  const std::string asked = text_of(*query, "query", "query");
  const ordered_json* given = fields.find(kDocuments);
  if (given && !given->is_array()) Fields::wrong(kDocuments, *given, "a list of texts");
  std::vector<std::string> documents = texts_of(fields, kDocuments, scores_);
  // 0 is vLLM's way to say all.
  const auto most = static_cast<std::size_t>(fields.integer("top_n", 0, INT32_MAX).value_or(0));
  job->most = most == 0 ? documents.size() : std::min(most, documents.size());
  job->with_documents = fields.flag("return_documents", false);
  fields.require_all_read();
  for (std::size_t i = 0; i < documents.size(); ++i)
    job->texts.push_back(pair_of(scores_, asked, documents[i], job->wish, kDocuments, i));
  if (job->with_documents) job->documents = std::move(documents);
  add(job);
}

void RerankService::accept_pairs(const HttpRequest& request, const Reply& reply) {
  const ordered_json body = body_of(request);
  Fields fields(body);
  const auto job = make_job(reply);
  job->wish = read_wish(fields, scores_);
  const std::vector<std::string> first = texts_of(fields, kFirst, scores_), second = texts_of(fields, kSecond, scores_);
  fields.require_all_read();
  if (first.size() != 1 && first.size() != second.size())
    throw Refused(400,
                  fmt::format("text_1: got {} texts, expected one, or as many as text_2, which has {}", first.size(),
                              second.size()),
                  kFirst);
  for (std::size_t i = 0; i < second.size(); ++i)
    job->texts.push_back(pair_of(scores_, first[first.size() == 1 ? 0 : i], second[i], job->wish, kSecond, i));
  add(job);
}

void RerankService::add(const std::shared_ptr<Job>& job) {
  for (const ScoredPair& pair : job->texts) job->tokens += std::ssize(pair.ids);
  job->scores.resize(job->texts.size());
  job->open = std::ssize(job->texts);
  waiting_->add(job, scores_.pairs);
}

// The highest first, of equal ones the earlier.
ordered_json RerankService::Job::ranking() const {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return scores[i]; });
  ordered_json results = ordered_json::array();
  for (std::size_t i = 0; i < most; ++i) {
    ordered_json one{{"index", order[i]}, {"relevance_score", scores[order[i]]}};
    if (with_documents) one["document"] = {{"text", documents[order[i]]}};
    results.push_back(std::move(one));
  }
  return {{"id", "rerank-" + id},
          {"model", *model},
          {"results", std::move(results)},
          {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}};
}

ordered_json RerankService::Job::list() const {
  ordered_json data = ordered_json::array();
  for (std::size_t i = 0; i < scores.size(); ++i)
    data.push_back({{"index", i}, {"object", "score"}, {"score", scores[i]}});
  return {{"id", "score-" + id},
          {"object", "list"},
          {"created", static_cast<std::int64_t>(wall_seconds())},
          {"model", *model},
          {"data", std::move(data)},
          {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}};
}

void RerankService::Job::finish() {
  reply.count_tokens(tokens, -1);
  reply.send(200, dumped(ranks ? ranking() : list()));
}

void RerankService::score(const std::vector<std::shared_ptr<Job>>& jobs) {
  for (const std::shared_ptr<Job>& job : jobs) front_.metrics().count_prompt(job->tokens, 0);
  in_passes<Job>(jobs, scores_.pairs, [&](std::span<const PlaceOfText<Job>> places) {
    std::vector<ScoredPair> pairs;
    for (const auto& place : places) pairs.push_back(std::move(place.job->texts[place.text]));
    const std::vector<double> made = scores_.scores(pairs);
    for (std::size_t i = 0; i < places.size(); ++i) {
      Job& job = *places[i].job;
      job.scores[places[i].text] = job.wish.sigmoid ? 1 / (1 + std::exp(-made[i])) : made[i];
    }
  });
}

void RerankService::run(const std::function<bool()>& stop) {
  const auto next = [this] {
    std::int64_t pairs = 0;
    return waiting_->take([&](const Job& job) {
      if (pairs >= scores_.pairs) return false;
      pairs += std::ssize(job.texts);
      return true;
    });
  };
  run_passes<Job>(*waiting_, stop, next, [this](const auto& jobs) { score(jobs); });
}

}  // namespace hone::serve
