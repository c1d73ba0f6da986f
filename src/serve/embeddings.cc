#include "serve/embeddings.h"

#include <fmt/format.h>

#include <algorithm>

#include "serve/fields.h"
#include "serve/passes.h"
#include "serve/reply_json.h"
#include "serve/tokens.h"
#include "tensor/host.h"
#include "text/formats/base64.h"

namespace hone::serve {
namespace {

using nlohmann::ordered_json;

// As base64, which clients ask for by default: little-endian fp32, a third of what numbers take as text.
ordered_json shown(std::span<const float> vector, bool as_base64) {
  if (as_base64) return text::to_base64({reinterpret_cast<const char*>(vector.data()), vector.size_bytes()});
  ordered_json numbers = ordered_json::array();
  for (const float value : vector) numbers.push_back(*parse_double(fmt::format("{}", value)));  // no digits of a double
  return numbers;
}

bool is_id(const ordered_json& value) { return value.is_number_integer(); }

}  // namespace

struct EmbeddingService::Job {
  Reply reply;
  const std::string* model = nullptr;  // its name
  bool as_base64 = false;
  std::optional<std::int64_t> dims = {};
  std::vector<Ids> texts = {};
  std::vector<ordered_json> vectors = {};
  std::int64_t tokens = 0, open = 0;  // of all texts; texts without a vector
  std::size_t length(std::size_t text) const { return texts[text].size(); }
  void finish();
};

EmbeddingService::EmbeddingService(Embeds embeds)
    : embeds_(std::move(embeds)),
      front_(embeds_.front, routes()),
      waiting_(std::make_unique<Waiting<Job>>(embeds_.queue)) {
  front_.metrics().gauge("hone_requests_waiting", "Requests that wait for the model.",
                         [this] { return static_cast<double>(waiting_->size()); });
}
EmbeddingService::~EmbeddingService() = default;

std::vector<Front::Route> EmbeddingService::routes() {
  std::vector<Front::Route> routes{
      {"/v1/embeddings", [this](const auto& request, const auto& reply) { accept(request, reply); }}};
  const Tokenized tokenized{
      .name = embeds_.front.name, .max_length = embeds_.front.max_length, .tokenizer = embeds_.tokenizer};
  for (Front::Route& route : token_routes(tokenized)) routes.push_back(std::move(route));
  return routes;
}

namespace {

struct Reading {
  const Embeds& embeds;
  std::string prompt;
  bool may_cut;
};

Ids text_of(const ordered_json& one, const Reading& reading, const std::string& where) {
  const Embeds& embeds = reading.embeds;
  if (!one.is_string() && !(one.is_array() && !one.empty() && is_id(one.front())))
    Fields::wrong("input", one, "a text, a list of texts, a list of token ids, or a list of such lists");
  Ids ids;
  try {
    ids = one.is_string() ? embeds.tokens(one.get<std::string>(), reading.prompt, reading.may_cut, where)
                          : Fields::ids(one, embeds.vocab_size, where);  // as they are, with nothing before them
  } catch (const Error& error) {
    throw Refused(400, error.what(), "input");
  }
  const auto most = static_cast<std::size_t>(embeds.front.max_length);
  if (reading.may_cut && ids.size() > most) ids.resize(most);
  if (ids.size() > most)
    throw Refused(400,
                  fmt::format("{}: got {} tokens, expected at most {}; truncate_prompt_tokens: -1 cuts its end", where,
                              ids.size(), most),
                  "input", "context_length_exceeded");
  return ids;
}

std::vector<Ids> texts_of(const ordered_json& input, const Reading& reading) {
  if (!input.is_array() || (!input.empty() && is_id(input.front()))) return {text_of(input, reading, "input")};
  if (input.empty() || std::ssize(input) > reading.embeds.most_texts)
    throw Refused(400, fmt::format("input: got {} texts, expected 1 to {}", input.size(), reading.embeds.most_texts),
                  "input");
  std::vector<Ids> texts;
  for (std::size_t i = 0; i < input.size(); ++i)
    texts.push_back(text_of(input[i], reading, fmt::format("input[{}]", i)));
  return texts;
}

std::string prompt_of(Fields& fields, const Embeds& embeds) try {
  return embeds.prompt(fields.text("prompt_name"));
} catch (const Error& error) {
  throw Refused(400, error.what(), "prompt_name");
}

}  // namespace

void EmbeddingService::accept(const HttpRequest& request, const Reply& reply) {
  const ordered_json body = body_of(request);
  Fields fields(body);
  auto job = std::make_shared<Job>(Job{reply, &embeds_.front.name});
  require_model(fields, embeds_.front.name);
  const std::string form = fields.text("encoding_format");
  if (!form.empty() && form != "float" && form != "base64")
    Fields::wrong("encoding_format", form, "float or base64");
  job->as_base64 = form == "base64";
  job->dims = fields.integer("dimensions", 1, embeds_.width);
  fields.only("truncate_prompt_tokens", {-1}, "-1 cuts what is longer than the model takes");
  const bool may_cut = fields.find("truncate_prompt_tokens") != nullptr;
  const Reading reading{embeds_, prompt_of(fields, embeds_), may_cut};
  fields.pass_over({"user"});
  const ordered_json* input = fields.find("input");
  fields.require_all_read();
  if (!input) throw Refused(400, "input: missing", "input");
  job->texts = texts_of(*input, reading);
  for (const Ids& text : job->texts) job->tokens += std::ssize(text);
  job->vectors.resize(job->texts.size());
  job->open = std::ssize(job->texts);
  waiting_->add(std::move(job), embeds_.texts);
}

void EmbeddingService::Job::finish() {
  ordered_json data = ordered_json::array();
  for (std::size_t t = 0; t < vectors.size(); ++t)
    data.push_back({{"object", "embedding"}, {"index", t}, {"embedding", std::move(vectors[t])}});
  reply.count_tokens(tokens, -1);
  reply.send(200, dumped({{"object", "list"},
                          {"data", std::move(data)},
                          {"model", *model},
                          {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}}));
}

// Of requests that want vectors of one length.
void EmbeddingService::embed(const std::vector<std::shared_ptr<Job>>& jobs) {
  for (const std::shared_ptr<Job>& job : jobs) front_.metrics().count_prompt(job->tokens, 0);
  in_passes<Job>(jobs, embeds_.texts, [&](std::span<const PlaceOfText<Job>> places) {
    std::vector<Ids> texts;
    for (const auto& place : places) texts.push_back(std::move(place.job->texts[place.text]));
    const Tensor made_SD = embeds_.vectors(texts, jobs[0]->dims);
    const auto values = host::values<float>(made_SD);
    const auto width = static_cast<std::size_t>(made_SD.size(1));
    for (std::size_t i = 0; i < places.size(); ++i) {
      Job& job = *places[i].job;
      job.vectors[places[i].text] = shown(values.subspan(i * width, width), job.as_base64);
    }
  });
}

void EmbeddingService::run(const std::function<bool()>& stop) {
  const auto next = [this] {
    std::optional<std::optional<std::int64_t>> dims;  // of the first one
    std::int64_t texts = 0;
    return waiting_->take([&](const Job& job) {
      if (dims && (*dims != job.dims || texts >= embeds_.texts)) return false;
      dims = job.dims, texts += std::ssize(job.texts);
      return true;
    });
  };
  run_passes<Job>(*waiting_, stop, next, [this](const auto& jobs) { embed(jobs); });
}

}  // namespace hone::serve
