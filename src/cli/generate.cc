// hone generate: continues prompts.
#include <fmt/format.h>

#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "hone/command.h"
#include "hone/generate.h"
#include "hone/hub.h"
#include "hone/registry.h"
#include "io/json.h"
#include "io/lines.h"

namespace hone::cli {
namespace {

std::string one_line(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string_view name_of(FinishReason reason) {
  return reason == FinishReason::eos ? "eos" : reason == FinishReason::stop ? "stop" : "length";
}

class Generate final : public Command {
 public:
  struct Config {
    std::vector<std::string> prompt;
    std::string prompts, tokenizer;
    std::optional<std::int64_t> max_new_tokens, top_k, batch_size;
    std::optional<double> temperature, top_p, min_p, repetition_penalty;
    std::vector<std::string> stop;
    std::uint64_t seed = 0;
    bool ignore_eos = false, json = false, stream = true, stats = false;
    std::optional<Precision> precision;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("prompt", &C::prompt, "Text to continue; may be given several times."),
          field("prompts", &C::prompts, "File of prompts: JSON Lines with the field prompt (or text), else one prompt per line."),
          field("tokenizer", &C::tokenizer, "Folder or tokenizer.json; default: the model's own."),
          field("max_new_tokens", &C::max_new_tokens, "Tokens to generate at most.", at_least(0)),
          field("temperature", &C::temperature, "Logits are divided by it before sampling; 0 = always the likeliest token.", at_least(0)),
          field("top_k", &C::top_k, "Sample among the k likeliest tokens; 0 = all.", at_least(0)),
          field("top_p", &C::top_p, "Sample among the likeliest tokens that together have this probability; 1 = all.", {.low = 0, .high = 1}),
          field("min_p", &C::min_p, "Leave out tokens less likely than this share of the likeliest one; 0 = none.", {.low = 0, .high = 1}),
          field("repetition_penalty", &C::repetition_penalty, "Above 1: tokens already in the text become less likely.", at_least(0)),
          field("stop", &C::stop, "Text that ends the answer and is left out of it; may be given several times."),
          field("seed", &C::seed, "Seed of the sampling; the same seed gives the same text."),
          field("ignore_eos", &C::ignore_eos, "Go on after the end-of-sequence token."),
          field("batch_size", &C::batch_size, "Prompts that are continued at the same time; default 16.", at_least(1)),
          field("json", &C::json, "Print one JSON object per prompt: prompt, text, ids, finish_reason."),
          field("stream", &C::stream, "Print a single answer while it is written."),
          field("stats", &C::stats, "Afterwards print the tokens per second of prompts and of generation to standard error."),
          field("precision", &C::precision, "Precision of weights and activations; default: as the model is stored.")};
    }
  };
  explicit Generate(const Config& config) : flags_(config) {}

  Usage usage() const override {
    return {"MODEL  (without --prompt or --prompts: standard input is the prompt)",
            {"hone generate my-model --prompt \"Once upon a time\" --temperature 0.8",
             "hone generate runs/quickstart --prompt \"12+34=\" --prompt \"7+8=\" --json"},
            1, 1};
  }

  int run(const Invocation& call) override {
    const std::string folder = find_model_folder(call.positionals[0]).string();
    const auto tokenizer = load_tokenizer(flags_.tokenizer.empty() ? folder : flags_.tokenizer);
    const std::vector<std::string> prompts = read_prompts();
    std::vector<std::vector<std::int32_t>> ids;
    for (const std::string& prompt : prompts) ids.push_back(encode(*tokenizer, prompt));
    const GenerateConfig config = merged(generation_defaults(folder));
    const auto model = load_causal_lm(folder, flags_.precision ? *flags_.precision : stored_precision(folder));
    Generator generator(*model, tokenizer);
    if (prompts.size() == 1 && flags_.stream && !flags_.json) {
      std::cout << prompts[0] << std::flush;
      generator.generate(ids, config, [](std::size_t, const std::string& text) { std::cout << text << std::flush; });
      std::cout << '\n';
    } else {
      print(prompts, generator.generate(ids, config));
    }
    if (flags_.stats) print(generator.stats());
    return 0;
  }

 private:
  std::vector<std::string> read_prompts() const {
    std::vector<std::string> all = flags_.prompt;
    if (!flags_.prompts.empty()) {
      io::LineReader reader(flags_.prompts);
      std::string_view line;
      while (reader.next(line)) all.push_back(prompt_of(std::string(line), reader.line()));
    }
    if (flags_.prompt.empty() && flags_.prompts.empty())
      all.emplace_back(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
    if (all.empty()) throw Error(ErrorKind::data, flags_.prompts + ": no prompts");
    return all;
  }

  std::string prompt_of(const std::string& line, std::int64_t number) const {
    if (line.empty() || line[0] != '{') return line;
    const nlohmann::json object = io::parse_json_line(line, flags_.prompts, number);
    for (const char* key : {"prompt", "text"})
      if (object.contains(key) && object[key].is_string()) return object[key].get<std::string>();
    throw Error(ErrorKind::data, fmt::format("{}:{}: no field \"prompt\" or \"text\" that is a string", flags_.prompts, number));
  }

  static std::vector<std::int32_t> encode(const Tokenizer& tokenizer, const std::string& prompt) {
    std::vector<std::int32_t> ids = tokenizer.encode(prompt).ids;
    if (tokenizer.adds_eos && !ids.empty() && ids.back() == tokenizer.eos_id) ids.pop_back();
    if (ids.empty() && tokenizer.bos_id) ids.push_back(*tokenizer.bos_id);
    return ids;
  }

  GenerateConfig merged(GenerateConfig config) const {
    const auto take = [](auto& value, const auto& flag) {
      if (flag) value = *flag;
    };
    take(config.max_new_tokens, flags_.max_new_tokens);
    take(config.temperature, flags_.temperature);
    take(config.top_k, flags_.top_k);
    take(config.top_p, flags_.top_p);
    take(config.min_p, flags_.min_p);
    take(config.repetition_penalty, flags_.repetition_penalty);
    take(config.batch_size, flags_.batch_size);
    if (!flags_.stop.empty()) config.stop = flags_.stop;
    config.seed = flags_.seed;
    config.ignore_eos = flags_.ignore_eos;
    return config;
  }

  void print(const std::vector<std::string>& prompts, const std::vector<Generated>& answers) const {
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (flags_.json)
        std::cout << one_line({{"prompt", prompts[i]}, {"text", answers[i].text}, {"ids", answers[i].ids},
                               {"finish_reason", name_of(answers[i].reason)}}) << '\n';
      else
        std::cout << prompts[i] << answers[i].text << '\n';
    }
  }

  static void print(const GenerateStats& s) {
    const auto line = [](const char* name, std::int64_t tokens, double seconds) {
      std::cerr << fmt::format("{}: {} tokens in {:.4f} s, {:.1f} tokens/s\n", name, tokens, seconds,
                               tokens > 0 ? static_cast<double>(tokens) / seconds : 0.0);
    };
    std::cout << std::flush;
    line("prompts", s.prompt_tokens, s.prompt_seconds);
    line("generation", s.decoded_tokens, s.decode_seconds);
  }

  Config flags_;
};

}  // namespace

void register_generate(Registries& hone) { hone.commands.add<Generate>("generate", "Continue prompts with a model."); }

}  // namespace hone::cli
