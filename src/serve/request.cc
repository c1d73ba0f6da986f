#include "serve/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/strings.h"
#include "generate/engine.h"
#include "generate/rows.h"
#include "serve/chat.h"
#include "serve/fields.h"
#include "serve/form.h"
#include "serve/tools.h"

namespace hone::serve {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kMostLikeliest = 20, kMostStops = 16;

std::vector<std::string> stops_of(Fields& fields) {
  const ordered_json* value = fields.find("stop");
  std::vector<std::string> stops;
  if (!value) return stops;
  const auto add = [&](const ordered_json& one) {
    if (!one.is_string() || one.get_ref<const std::string&>().empty())
      Fields::wrong("stop", *value, "a text that is not empty, or a list of such texts");
    stops.push_back(one.get<std::string>());
  };
  if (!value->is_array()) return add(*value), stops;
  for (const ordered_json& one : *value) add(one);
  if (std::ssize(stops) > kMostStops)
    throw Refused(400, fmt::format("stop: got {} texts, expected at most {}", stops.size(), kMostStops), "stop");
  return stops;
}

// {"token id": bias}, as the API has it.
std::vector<std::pair<std::int32_t, double>> biases_of(Fields& fields, const Served& served) {
  std::vector<std::pair<std::int32_t, double>> biases;
  const ordered_json* value = fields.find("logit_bias");
  if (!value) return biases;
  const auto wrong = [&] {
    Fields::wrong("logit_bias", *value, fmt::format("an object of token ids below {}, each with a number from -100 to "
                                                    "100",
                                                    served.model->vocab_size()));
  };
  if (!value->is_object()) wrong();
  for (const auto& [name, bias] : value->items()) {
    const auto id = parse_int(name);
    const double number = bias.is_number() ? bias.get<double>() : NAN;
    if (!id || *id < 0 || *id >= served.model->vocab_size() || !(std::abs(number) <= 100)) wrong();
    biases.emplace_back(static_cast<std::int32_t>(*id), number);
  }
  return biases;
}

void read_stream(Fields& fields, Request& request) {
  request.stream = fields.flag("stream", false);
  const ordered_json* options = fields.find("stream_options");
  if (!options) return;
  if (!request.stream) throw Refused(400, "stream_options: only with stream: true", "stream_options");
  Fields inner(*options);
  request.include_usage = inner.flag("include_usage", false);
  inner.only("include_obfuscation", {false}, "nothing is padded here");
  inner.require_all_read();
}

// What both kinds share; `limit` is what max_tokens was called, if anything.
GenerateConfig read_sampling(Fields& fields, const Served& served, const GenerateConfig& defaults, Request& request) {
  require_model(fields, served.name);
  GenerateConfig config = defaults;
  const auto take = [](auto& value, const auto& given) {
    if (given) value = *given;
  };
  take(config.temperature, fields.number("temperature", 0, 100));
  take(config.top_p, fields.number("top_p", 0, 1));
  take(config.min_p, fields.number("min_p", 0, 1));
  take(config.repetition_penalty, fields.number("repetition_penalty", 1e-6, 1e6));
  take(config.presence_penalty, fields.number("presence_penalty", -2, 2));
  take(config.frequency_penalty, fields.number("frequency_penalty", -2, 2));
  take(config.min_new_tokens, fields.integer("min_tokens", 0, INT32_MAX));
  if (auto biases = biases_of(fields, served); !biases.empty()) config.logit_bias = std::move(biases);
  const auto top_k = fields.integer("top_k", -1, 2147483647);
  if (top_k) config.top_k = std::max<std::int64_t>(*top_k, 0);
  config.ignore_eos = fields.flag("ignore_eos", config.ignore_eos);
  if (std::vector<std::string> stops = stops_of(fields); !stops.empty()) config.stop = std::move(stops);
  const auto seed = fields.integer("seed", INT64_MIN, INT64_MAX);
  config.seed =
      seed ? static_cast<std::uint64_t>(*seed) : std::random_device{}() + (std::uint64_t{std::random_device{}()} << 32);
  request.n = fields.integer("n", 1, served.most_answers, ", the server's --batch-size").value_or(1);
  read_stream(fields, request);
  request.form_by = read_form(fields, config);
  fields.only("skip_special_tokens", {true}, "special tokens are no part of an answer's text");
  fields.only("store", {false}, "nothing is stored here");
  fields.pass_over({"user", "metadata", "service_tier", "safety_identifier", "prompt_cache_key"});
  return config;
}

// limit: as it was asked for; nothing: `otherwise`, or as much as there is room for where that is below 0.
void set_limits(GenerateConfig& config, std::optional<std::int64_t> limit, const char* param, std::int64_t otherwise,
                const Request& request, const Served& served) {
  std::int64_t longest = 0;
  for (std::size_t i = 0; i < request.prompts.size(); ++i) {
    const std::vector<std::int32_t>& prompt = request.prompts[i];
    longest = std::max(longest, std::ssize(prompt));
    try {
      GenerateConfig unlimited = config;
      unlimited.max_length.reset();
      generate::check_prompt(*served.model, unlimited, prompt,
                             request.prompts.size() == 1 ? "the prompt" : fmt::format("prompt {}", i));
      generate::check_pictures(*served.model, prompt, request.pictures, "the prompt");
    } catch (const Error& error) {
      throw Refused(400, error.what(), request.is_chat ? "messages" : "prompt");
    }
  }
  const std::int64_t room = served.max_length - longest;
  const std::int64_t wanted = limit.value_or(otherwise < 0 ? std::max<std::int64_t>(room, 1) : otherwise);
  if (wanted > room)
    throw Refused(400,
                  fmt::format("the prompt has {} tokens and the answer may have {}; together they may have {}", longest,
                              wanted, served.max_length),
                  limit             ? param
                  : request.is_chat ? "messages"
                                    : "prompt",
                  "context_length_exceeded");
  const GenerateConfig& defaults = request.is_chat ? served.chat_defaults : served.defaults;
  if (config.min_new_tokens > wanted && config.min_new_tokens != defaults.min_new_tokens)
    throw Refused(400,
                  fmt::format("min_tokens: got {}, expected at most {}, the tokens that the answer may have",
                              config.min_new_tokens, wanted),
                  "min_tokens");
  config.max_new_tokens = wanted;
  config.max_length.reset();
}

void check_ends(const GenerateConfig& config, const Served& served) {
  try {
    generate::check_ends(*served.model, *served.tokenizer, config);
  } catch (const Error& error) {
    throw Refused(400, error.what(), "stop");
  }
}

bool is_ids(const ordered_json& value) {
  return value.is_array() && !value.empty() &&
         std::all_of(value.begin(), value.end(), [](const auto& one) { return one.is_number_integer(); });
}

void add_prompt(const ordered_json& one, const std::string& where, const Served& served, Request& request) {
  if (one.is_string()) {
    request.texts.push_back(one.get<std::string>());
    request.prompts.push_back(generate::prompt_ids(*served.tokenizer, request.texts.back()));
  } else if (is_ids(one)) {
    request.prompts.push_back(Fields::ids(one, served.model->vocab_size(), where));
    request.texts.push_back("");
  } else {
    throw Refused(400, "prompt: expected a text, a list of texts, a list of token ids, or a list of such lists",
                  "prompt");
  }
}

}  // namespace

Request read_completion(const ordered_json& body, const Served& served) {
  Fields fields(body);
  Request request;
  GenerateConfig config = read_sampling(fields, served, served.defaults, request);
  const auto limit = fields.integer("max_tokens", 0, INT32_MAX);
  request.echo = fields.flag("echo", false);
  request.log_probs = fields.integer("logprobs", 0, kMostLikeliest).value_or(-1);
  fields.only("best_of", {request.n}, "all n answers are given, none is left out");
  fields.only("suffix", {""}, "a text is continued at its end only");
  const ordered_json* prompt = fields.find("prompt");
  if (!prompt) throw Refused(400, "prompt: missing", "prompt");
  fields.require_all_read();
  if (prompt->is_array() && !is_ids(*prompt))
    for (std::size_t i = 0; i < prompt->size(); ++i)
      add_prompt((*prompt)[i], fmt::format("prompt[{}]", i), served, request);
  else
    add_prompt(*prompt, "prompt", served, request);
  if (request.prompts.empty()) throw Refused(400, "prompt: got an empty list", "prompt");
  if (request.answers() > served.most_answers)
    throw Refused(400,
                  fmt::format("{} prompts with {} answers each: expected at most {} answers of a request, "
                              "the server's --batch-size",
                              request.prompts.size(), request.n, served.most_answers),
                  "prompt");
  set_limits(config, limit, "max_tokens", 16, request, served);
  for (std::size_t i = 0; i < request.prompts.size(); ++i)
    if (request.echo && request.texts[i].empty()) request.texts[i] = served.tokenizer->decode(request.prompts[i]);
  check_ends(config, served);
  request.make_form = form_maker(request.form_by, request.has_tools, served);
  request.config = std::make_shared<const GenerateConfig>(std::move(config));
  return request;
}

Request read_chat(const ordered_json& body, const Served& served) {
  if (!served.chat_text)
    throw Refused(400, "the model has no chat template; /v1/completions continues texts", "messages");
  Fields fields(body);
  Request request;
  request.is_chat = true;
  GenerateConfig config = read_sampling(fields, served, served.chat_defaults, request);
  const auto limit = fields.integer("max_completion_tokens", 1, INT32_MAX),
             older = fields.integer("max_tokens", 1, INT32_MAX);
  if (limit && older && *limit != *older)
    throw Refused(400, "max_tokens and max_completion_tokens contradict each other", "max_tokens");
  const bool log_probs = fields.flag("logprobs", false);
  const auto likeliest = fields.integer("top_logprobs", 0, kMostLikeliest);
  if (likeliest && !log_probs) throw Refused(400, "top_logprobs: only with logprobs: true", "top_logprobs");
  if (log_probs) request.log_probs = likeliest.value_or(0);
  ordered_json row = read_messages(fields, served);
  AskedTools tools = read_tools(fields, served);
  request.has_tools = !tools.tools.is_null(), request.is_named_call = tools.is_named;
  if (request.has_tools) row["tools"] = tools.tools;
  fields.only("modalities", {{"text"}}, "answers are texts");
  read_chat_end(fields);
  fields.require_all_read();
  ChatPrompt prompt = chat_prompt(row, served);
  request.begins_thinking = begins_thinking(prompt.text);
  request.make_form = form_maker(request.form_by, request.has_tools, served);
  if (tools.form) {
    request.form_by = tools.asked_by, request.holds_calls = true;
    request.make_form = maker_of_calls(std::move(tools), prompt.text, served);
  }
  request.prompts.push_back(std::move(prompt.ids)), request.pictures = std::move(prompt.pictures);
  set_limits(config, limit ? limit : older, limit ? "max_completion_tokens" : "max_tokens", -1, request, served);
  check_ends(config, served);
  request.config = std::make_shared<const GenerateConfig>(std::move(config));
  return request;
}

}  // namespace hone::serve
