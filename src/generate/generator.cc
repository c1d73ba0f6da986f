// Generation: batches of prompts, one after another, through an Engine.
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "base/log.h"
#include "base/strings.h"
#include "generate/beams.h"
#include "generate/engine.h"
#include "generate/form.h"
#include "hone/layers.h"
#include "hone/random.h"

namespace hone {

struct Generator::State {
  const CausalLm& model;
  std::shared_ptr<const Tokenizer> tokenizer;
  GenerateStats stats = {};
  std::string adapter = kDefaultAdapter;
  bool silent = false, told = false;  // told: that texts go beyond what the model was made for
  std::optional<generate::MixedWith> other = {};
  std::shared_ptr<generate::KeptTurns> kept = {};
  using Prompts = std::vector<std::vector<std::int32_t>>;

  using Pictures = std::span<const std::vector<DocPicture>>;
  void check(const Prompts& prompts, const GenerateConfig& config, Pictures pictures) const;
  void run(const std::vector<generate::Asked>& asked, const Stream& stream, const Answered& finished);
  void run_beams(const Prompts& prompts, const GenerateConfig& config, std::span<const std::int64_t> most,
                 const Stream& stream, const Answered& finished);
  void warn_of_length(const Prompts& prompts, const std::vector<Generated>& results,
                      const GenerateConfig& config) const;
  bool is_beyond(std::int64_t prompt, std::int64_t answer) const;
  void tell_beyond(const std::vector<generate::Asked>& asked, const std::vector<bool>& ended, std::int64_t answer);
};

// What was read of a text is all of it but its last token.
bool Generator::State::is_beyond(std::int64_t prompt, std::int64_t answer) const {
  return (model.seq2seq_lm() ? std::max(prompt, answer) : prompt + answer - 1) > model.max_positions();
}

// As soon as the first one does: an answer may be long, and what comes from here on is seldom worth waiting for.
void Generator::State::tell_beyond(const std::vector<generate::Asked>& asked, const std::vector<bool>& ended,
                                   std::int64_t answer) {
  for (std::size_t i = 0; i < asked.size() && !told && !silent; ++i) {
    if (ended[i] || !is_beyond(std::ssize(asked[i].prompt), answer)) continue;
    log::warning("text {} goes beyond the {} tokens that the model was made for", asked[i].number + 1,
                 model.max_positions());
    told = true;
  }
}

void Generator::State::warn_of_length(const Prompts& prompts, const std::vector<Generated>& results,
                                      const GenerateConfig& config) const {
  const std::int64_t most = model.max_positions();
  std::int64_t beyond = 0, ended = 0;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const std::int64_t prompt = std::ssize(prompts[i]), answer = std::ssize(results[i].ids);
    beyond += is_beyond(prompt, answer);
    ended += results[i].reason == FinishReason::length && answer < generate::most_tokens(model, config, prompt);
  }
  const std::string all = counted(std::ssize(prompts), "text");
  if (ended > 0) log::warning("{} of {} ended early: this model has learned {} positions", ended, all, most);
  if (beyond > 0 && !(told && prompts.size() == 1))
    log::warning("{} of {} went beyond the {} tokens that the model was made for", beyond, all, most);
}

void Generator::State::check(const Prompts& prompts, const GenerateConfig& config, Pictures pictures) const {
  generate::check_ends(model, *tokenizer, config);
  generate::check_beams(config);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const std::string where = fmt::format("prompt {}", i + 1);
    generate::check_prompt(model, config, prompts[i], where);
    generate::check_pictures(model, prompts[i],
                             pictures.empty() ? std::span<const DocPicture>() : pictures[i], where);
    generate::check_form(config, model, *tokenizer, prompts[i]);
  }
}

void Generator::State::run(const std::vector<generate::Asked>& asked, const Stream& stream, const Answered& finished) {
  generate::Engine engine(model, *tokenizer, adapter, std::ssize(asked));
  if (other) engine.mix_with(*other);
  if (kept) engine.keep_texts_in(kept);
  generate::Engine::Told told_of;
  if (stream)
    told_of = [&](std::size_t prompt, std::int32_t, const std::string& text, const generate::TokenLogProbs*) {
      stream(prompt, text);
    };
  engine.add(asked);
  std::vector<bool> ended(asked.size());
  const auto note = [&](std::size_t number, const Generated& answer) {
    ended[number - asked[0].number] = true;
    finished(number, answer);
  };
  for (std::int64_t answer = 1; engine.rows() > 0; ++answer) {
    engine.step(told_of, note);
    tell_beyond(asked, ended, answer);
  }
  stats.prompt_tokens += engine.stats().prompt_tokens, stats.decoded_tokens += engine.stats().decoded_tokens;
  stats.prompt_seconds += engine.stats().prompt_seconds, stats.decode_seconds += engine.stats().decode_seconds;
}

void Generator::State::run_beams(const Prompts& prompts, const GenerateConfig& config,
                                 std::span<const std::int64_t> most, const Stream& stream, const Answered& finished) {
  HONE_ASSERT(!other);
  const generate::Beams beams({model, *tokenizer, adapter, config});
  const auto batch_size = static_cast<std::size_t>(config.batch_size);
  for (std::size_t begin = 0; begin < prompts.size(); begin += batch_size) {
    std::vector<generate::AskedOfBeams> asked;
    for (std::size_t i = begin; i < std::min(begin + batch_size, prompts.size()); ++i) {
      const std::int64_t limit = generate::answer_limit(model, config, std::ssize(prompts[i]));
      asked.push_back({prompts[i], most.empty() ? limit : std::min(limit, most[i])});
    }
    const auto each_step = [&](std::size_t number) {
      if (stream) stream(begin + number, "");
    };
    const auto answered = [&](std::size_t number, const Generated& answer) {
      if (stream) stream(begin + number, answer.text);
      finished(begin + number, answer);
    };
    beams.answer(asked, each_step, answered, stats);
  }
}

Generator::Generator(const Model& model, std::shared_ptr<const Tokenizer> tokenizer)
    : state_(std::make_unique<State>(State{require_language_model(model, "generate"), std::move(tokenizer)})) {
  if (!state_->tokenizer)
    throw Error(ErrorKind::usage, "generate: no tokenizer; expected one, as load_tokenizer() gives it");
}
Generator::~Generator() = default;

void Generator::use_adapter(const std::string& name) {
  bool there = name.empty();
  state_->model.each_weight(
      [&](const std::string&, const Weight& weight) { there |= weight.adapter(name) != nullptr; });
  if (!there) throw Error(ErrorKind::config, "the model has no adapter named " + hone::quoted(name));
  state_->adapter = name;
}

void Generator::mix_with(const Model& other, const std::string& adapter, double share) {
  state_->other.emplace(generate::MixedWith{require_causal_lm(other, "generate"), adapter, share});
}

void Generator::keep_texts(std::int64_t most) {
  HONE_ASSERT(!state_->other && !state_->model.seq2seq_lm());
  state_->kept = std::make_shared<generate::KeptTurns>(most);
}

void Generator::forget_text(std::span<const std::int32_t> ids) {
  if (state_->kept) state_->kept->forget(ids);
}

const GenerateStats& Generator::stats() const { return state_->stats; }

void Generator::be_silent() { state_->silent = true; }

std::vector<Generated> Generator::generate(const std::vector<std::vector<std::int32_t>>& prompts,
                                           const GenerateConfig& config, const Stream& stream,
                                           const Answered& answered, std::span<const std::uint64_t> seeds,
                                           std::span<const std::int64_t> most,
                                           std::span<const std::vector<DocPicture>> pictures) {
  HONE_ASSERT(pictures.empty() || pictures.size() == prompts.size());
  HONE_ASSERT(seeds.empty() || seeds.size() == prompts.size());
  HONE_ASSERT(most.empty() || most.size() == prompts.size());
  const at::NoGradGuard no_grad;
  state_->stats = {};
  state_->told = false;
  state_->check(prompts, config, pictures);
  std::vector<Generated> results(prompts.size());
  const Answered finished = [&](std::size_t prompt, const Generated& answer) {
    results[prompt] = answer;
    if (answered) answered(prompt, answer);
  };
  if (config.max_new_tokens == 0) {
    for (std::size_t i = 0; i < prompts.size(); ++i) finished(i, {});
    return results;
  }
  if (config.num_beams > 1) {
    if (!pictures.empty()) throw Error(ErrorKind::config, "num_beams: not with pictures");
    state_->run_beams(prompts, config, most, stream, finished);
    if (!state_->silent) state_->warn_of_length(prompts, results, config);
    return results;
  }
  const auto random_of = [&](std::size_t i) {
    return seeds.empty() ? Random(config.seed, fmt::format("generate/{}", i)) : Random(seeds[i], "generate");
  };
  const auto shared = std::make_shared<const GenerateConfig>(config);
  const auto batch_size = static_cast<std::size_t>(config.batch_size);
  for (std::size_t begin = 0; begin < prompts.size(); begin += batch_size) {
    std::vector<generate::Asked> asked;
    for (std::size_t i = begin; i < std::min(begin + batch_size, prompts.size()); ++i) {
      const std::int64_t limit = generate::answer_limit(state_->model, config, std::ssize(prompts[i]));
      asked.push_back({.number = i, .prompt = prompts[i], .config = shared, .random = random_of(i),
                       .most = most.empty() ? limit : std::min(limit, most[i])});
      if (!pictures.empty()) asked.back().pictures = pictures[i];
    }
    state_->run(asked, stream, finished);
  }
  if (!state_->silent) state_->warn_of_length(prompts, results, config);
  return results;
}

}  // namespace hone
