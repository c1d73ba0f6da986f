// generation_config.json: what a model's maker wants when the user says nothing. Without that file config.json says
// where texts end, as in transformers.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "base/log.h"
#include "base/strings.h"
#include "config/texts_half.h"
#include "hone/config_read.h"
#include "hone/generate.h"
#include "nn/token_ids.h"

namespace hone {
namespace {

constexpr config::Range kAboveNothing{.low = 1e-6, .high = 1e6};

// The keys that decide the text and that hone has. null = not set.
struct HfGeneration {
  std::optional<bool> do_sample;
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<std::int64_t> top_k, max_new_tokens, max_length, forced_bos_token_id, forced_eos_token_id;
  std::optional<std::int64_t> min_length, min_new_tokens, no_repeat_ngram_size, num_beams;
  std::optional<double> length_penalty;
  std::optional<EarlyStopping> early_stopping;
  std::vector<std::string> stop_strings;
  static constexpr auto fields() {
    using C = HfGeneration;
    return std::tuple{field("do_sample", &C::do_sample, "Sample; otherwise always the likeliest token."),
                      field("temperature", &C::temperature, "Divides the logits.", at_least(0)),
                      field("top_p", &C::top_p, "Nucleus sampling.", {.low = 0, .high = 1}),
                      field("min_p", &C::min_p, "Smallest share of the likeliest token.", {.low = 0, .high = 1}),
                      field("repetition_penalty", &C::repetition_penalty, "Penalty of seen tokens.", kAboveNothing),
                      field("top_k", &C::top_k, "Number of candidates.", at_least(0)),
                      field("max_new_tokens", &C::max_new_tokens, "Tokens at most.", at_least(1)),
                      field("max_length", &C::max_length, "The same with the prompt's.", at_least(1)),
                      field("min_length", &C::min_length, "Tokens at least, with the prompt's.", at_least(0)),
                      field("min_new_tokens", &C::min_new_tokens, "Tokens at least.", at_least(0)),
                      field("no_repeat_ngram_size", &C::no_repeat_ngram_size, "Tokens in a row that come once.",
                            at_least(0)),
                      field("num_beams", &C::num_beams, "Answers side by side.", {.low = 1, .high = 1024}),
                      field("length_penalty", &C::length_penalty, "Power of lengths that divide beams' scores."),
                      field("early_stopping", &C::early_stopping, "When beams end."),
                      field("forced_bos_token_id", &C::forced_bos_token_id, "First token of an answer.", at_least(0)),
                      field("forced_eos_token_id", &C::forced_eos_token_id, "Last one of the longest.", at_least(0)),
                      field("stop_strings", &C::stop_strings, "Texts that end the text.")};
  }
};

// Keys that would change the text, with the value at which they do nothing; null and what is empty do nothing either.
constexpr std::array kNeutral = std::to_array<std::pair<std::string_view, std::string_view>>(
    {{"num_beam_groups", "1"},    {"num_return_sequences", "1"}, {"encoder_repetition_penalty", "1.0"},
     {"penalty_alpha", ""},       {"diversity_penalty", "0.0"}, {"encoder_no_repeat_ngram_size", "0"},
     {"typical_p", "1.0"},        {"epsilon_cutoff", "0.0"},    {"eta_cutoff", "0.0"},
     {"top_h", ""},               {"guidance_scale", ""},       {"begin_suppress_tokens", ""},
     {"renormalize_logits", "false"}, {"exponential_decay_length_penalty", ""}, {"watermarking_config", ""},
     {"constraints", ""},         {"dola_layers", ""},          {"prompt_lookup_num_tokens", ""},
     {"token_healing", "false"},  {"max_time", ""},             {"force_words_ids", ""}});

// Keys that change nothing here, with what they may be; each may be null.
enum class Is { anything, flag, text };
constexpr std::array kWithoutEffect = std::to_array<std::pair<std::string_view, Is>>(
    {{"_from_model_config", Is::flag},  {"transformers_version", Is::text},  {"use_cache", Is::flag},
     {"cache_implementation", Is::text}, {"cache_config", Is::anything},      {"return_legacy_cache", Is::flag},
     {"output_attentions", Is::flag},    {"output_hidden_states", Is::flag},  {"output_scores", Is::flag},
     {"output_logits", Is::flag},        {"return_dict_in_generate", Is::flag}, {"trust_remote_code", Is::flag},
     {"low_memory", Is::flag},           {"disable_compile", Is::flag},       {"remove_invalid_values", Is::flag},
     {"compile_config", Is::anything},   {"prefill_chunk_size", Is::anything}, {"max_cache_len", Is::anything},
     {"continuous_batching_config", Is::anything},
     // Of a second model that guesses tokens, which no file names: the caller of transformers brings it along.
     {"use_mtp", Is::flag},              {"is_assistant", Is::flag},          {"speculation_type", Is::anything},
     {"num_assistant_tokens", Is::anything}, {"num_assistant_tokens_schedule", Is::anything},
     {"assistant_confidence_threshold", Is::anything}, {"assistant_early_exit", Is::anything},
     {"assistant_lookbehind", Is::anything}, {"target_lookbehind", Is::anything},
     {"assistant_ensemble_weight", Is::anything}, {"max_matching_ngram_size", Is::anything}});

constexpr std::array<std::string_view, 4> kIds = {"bos_token_id", "eos_token_id", "pad_token_id",
                                                  "decoder_start_token_id"};
bool is_id(std::string_view key) { return std::find(kIds.begin(), kIds.end(), key) != kIds.end(); }

template <class T>
void check_type(const config::Node& value, const config::At& at) {
  T ignored{};
  config::Values<T>::read(value, ignored, at);
}

void check(Is wanted, const config::Node& value, const std::string& key, Problems& problems) {
  if (value.is_null()) return;
  if (wanted == Is::flag) check_type<bool>(value, {problems, key});
  if (wanted == Is::text) check_type<std::string>(value, {problems, key});
}

// What a file says that answers are made without: its model can be used all the same, so nobody needs to edit it.
struct PassedOver {
  std::vector<std::string> unsupported, unknown;
  void tell(const std::string& path) const {
    if (!unsupported.empty())
      log::warning("{}: answers are made without what hone does not support: {}", path, list_names(unsupported));
    if (!unknown.empty()) log::warning("{}: unknown keys are passed over: {}", path, join(unknown, ", "));
  }
};

bool neutral(std::string_view key, const config::Node& value, PassedOver& passed, Problems& problems) {
  for (const auto& [name, nothing] : kNeutral) {
    if (name != key) continue;
    const auto number = parse_double(nothing);
    const bool scalar = value.kind() == config::Node::Kind::scalar;
    const bool same = value.is_null() || (!scalar && value.entries().empty() && value.items().empty()) ||
                      (scalar && (number ? parse_double(value.text()) == number : value.text() == nothing));
    if (!same) passed.unsupported.emplace_back(key);
    return true;
  }
  for (const auto& [name, wanted] : kWithoutEffect) {
    if (name != key) continue;
    check(wanted, value, std::string(key), problems);
    return true;
  }
  return is_id(key);  // generation_defaults() reads them
}

// suppress_tokens, and bad_words_ids as far as these are single tokens.
bool take_suppressed(const std::string& key, const config::Node& value, std::int64_t vocab_size,
                     std::vector<std::int32_t>& suppressed, PassedOver& passed, Problems& problems) {
  const bool words = key == "bad_words_ids";
  if (!words && key != "suppress_tokens") return false;
  if (value.is_null()) return true;
  bool several = false;
  for (const config::Node& one : value.items()) {
    const std::vector<config::Node> word = words ? one.items() : std::vector{one};
    const auto id = word.size() == 1 ? parse_int(word[0].text()) : std::nullopt;
    if (id && *id >= 0 && *id < vocab_size)
      suppressed.push_back(static_cast<std::int32_t>(*id));
    else if (word.size() > 1)
      several = true;
    else
      problems.add(key, words ? "expected lists of tokens of the model" : "expected tokens of the model", "",
                   value.mark());
  }
  if (several) passed.unsupported.push_back(key + " of several tokens");
  return true;
}

// sequence_bias as far as it is of single tokens: a list of [[id], bias].
bool take_biases(const std::string& key, const config::Node& value, std::int64_t vocab_size,
                 std::vector<std::pair<std::int32_t, double>>& biases, PassedOver& passed, Problems& problems) {
  if (key != "sequence_bias") return false;
  bool several = false;
  for (const config::Node& one : value.items()) {
    const auto bias = one.items().size() == 2 ? parse_double(one.items()[1].text()) : std::nullopt;
    const std::vector<config::Node> word = bias ? one.items()[0].items() : std::vector<config::Node>();
    const auto id = word.size() == 1 ? parse_int(word[0].text()) : std::nullopt;
    if (id && *id >= 0 && *id < vocab_size && std::isfinite(*bias))
      biases.emplace_back(static_cast<std::int32_t>(*id), *bias);
    else if (word.size() > 1)
      several = true;
    else
      problems.add(key, "expected a list of [[token of the model], number]", "", value.mark());
  }
  if (several) passed.unsupported.push_back(key + " of several tokens");
  return true;
}

// The rest is what hone has, or nothing of its own: a name that a model's maker had a use for.
bool is_unknown(const std::string& key, PassedOver& passed) {
  const std::vector<std::string> known = config::Values<HfGeneration>::names();
  if (std::find(known.begin(), known.end(), key) != known.end()) return false;
  const std::string near = nearest(key, known);
  passed.unknown.push_back(hone::quoted(key) + (near.empty() ? "" : " (did you mean " + near + "?)"));
  return true;
}

GenerateConfig to_config(const HfGeneration& hf) {
  GenerateConfig config;
  const bool samples = hf.do_sample.value_or(false);
  if (samples) config.temperature = hf.temperature.value_or(1.0);
  // The filters count also where only the user asks for sampling, by a temperature; without one they do nothing.
  config.top_k = hf.top_k.value_or(samples ? 50 : 0);  // transformers' default where the file says nothing
  config.top_p = hf.top_p.value_or(1.0);
  config.min_p = hf.min_p.value_or(0.0);
  config.repetition_penalty = hf.repetition_penalty.value_or(1.0);
  if (hf.max_new_tokens) config.max_new_tokens = *hf.max_new_tokens;
  else if (hf.max_length)
    config.max_length = config.max_new_tokens = *hf.max_length;  // as transformers: of the two, max_new_tokens counts
  config.stop = hf.stop_strings;
  config.min_length = hf.min_length.value_or(0), config.min_new_tokens = hf.min_new_tokens.value_or(0);
  config.no_repeat_ngram_size = hf.no_repeat_ngram_size.value_or(0), config.num_beams = hf.num_beams.value_or(1);
  config.length_penalty = hf.length_penalty.value_or(1);
  config.early_stopping = hf.early_stopping.value_or(EarlyStopping::no);
  config.forced_bos_token_id = hf.forced_bos_token_id, config.forced_eos_token_id = hf.forced_eos_token_id;
  return config;
}

bool reads_sources(const config::Node& model_config) {
  const config::Node* told = model_config.find("is_encoder_decoder");
  return told && told->text() == "true";
}

// Where there is no generation_config.json.
GenerateConfig of_model_config(const std::string& path, std::int64_t vocab_size) {
  GenerateConfig config;
  if (!std::filesystem::exists(path)) return config;
  Problems problems;
  const config::Node file = config::texts_half(config::read_file(path));
  if (const config::Node* ends = file.find("eos_token_id"))
    config.eos_token_id = nn::read_token_ids(*ends, "eos_token_id", vocab_size, problems);
  const auto forced = [&](const char* key) -> std::optional<std::int64_t> {
    const config::Node* id = reads_sources(file) ? file.find(key) : nullptr;
    if (!id) return std::nullopt;
    const std::vector<std::int32_t> ids = nn::read_token_ids(*id, key, vocab_size, problems);
    return ids.empty() ? std::nullopt : std::optional<std::int64_t>(ids[0]);
  };
  config.forced_bos_token_id = forced("forced_bos_token_id");
  config.forced_eos_token_id = forced("forced_eos_token_id");
  problems.raise(path);
  return config;
}

}  // namespace

GenerateConfig generation_defaults(const std::string& model_folder, std::int64_t vocab_size) {
  const std::string path = model_folder + "/generation_config.json";
  if (!std::filesystem::exists(path)) return of_model_config(model_folder + "/config.json", vocab_size);
  Problems problems;
  const config::Node file = config::read_file(path);
  config::Node known = config::Node::map();
  std::vector<std::int32_t> suppressed;
  std::vector<std::pair<std::int32_t, double>> biases;
  PassedOver passed;
  for (const auto& [key, value] : file.entries())
    if (!take_suppressed(key, value, vocab_size, suppressed, passed, problems) &&
        !take_biases(key, value, vocab_size, biases, passed, problems) && !neutral(key, value, passed, problems) &&
        !is_unknown(key, passed))
      known.entries().emplace_back(key, value);
  HfGeneration hf;
  config::read(known, hf, problems);
  std::vector<std::int32_t> ends;
  for (const auto& [key, value] : file.entries()) {
    if (!is_id(key)) continue;
    const std::vector<std::int32_t> ids = nn::read_token_ids(value, key, vocab_size, problems);
    if (key == "eos_token_id") ends = ids;
  }
  problems.raise(path);
  GenerateConfig config = to_config(hf);
  const std::string model_config = model_folder + "/config.json";
  if (config.forced_bos_token_id && std::filesystem::exists(model_config) &&
      !reads_sources(config::read_file(model_config))) {
    passed.unsupported.emplace_back("forced_bos_token_id of a model without an encoder");
    config.forced_bos_token_id.reset();
  }
  passed.tell(path);
  config.eos_token_id = ends;
  config.suppress_tokens = suppressed, config.logit_bias = biases;
  return config;
}

}  // namespace hone
