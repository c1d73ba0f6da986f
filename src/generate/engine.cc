// One pass over all new prompts fills a cache, then one token per row and pass.
//
// Rows keep their own length in the cache, so prompts of different lengths cost nothing; finished rows leave it, and
// those of new prompts are put behind the others.
#include "generate/engine.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "generate/answer.h"
#include "generate/form.h"
#include "generate/restraints.h"
#include "generate/rows.h"
#include "generate/sampling.h"
#include "hone/layers.h"
#include "nn/decoding/choose.h"
#include "nn/finite.h"
#include "nn/kv_cache.h"
#include "ops/likeliest.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::generate {

// One prompt's answer in the making.
struct Engine::Line {
  // before: the tokens that the model itself goes on from.
  Line(const Asked& asked, std::span<const std::int32_t> before, std::vector<std::int32_t> ends,
       std::int64_t vocab_size)
      : number(asked.number),
        config(asked.config),
        most(asked.most),
        log_probs(asked.log_probs),
        has_pictures(!asked.pictures.empty()),
        text(before.begin(), before.end()),
        ends(std::move(ends)),
        sampler(*config, vocab_size),
        random(asked.random) {
    for (const std::int32_t id : before) sampler.seen(id);
  }
  bool greedy() const {
    return config->temperature == 0 && config->repetition_penalty == 1 && log_probs < 0 && !form && !restrains(*config);
  }

  std::size_t number;
  std::shared_ptr<const GenerateConfig> config;
  std::int64_t most, log_probs;  // tokens of the answer; as asked
  bool has_pictures;
  std::vector<std::int32_t> text, ends;  // what the model goes on from; tokens that end the answer
  std::optional<FormPlace> form;         // where it is held to one
  std::optional<Answer> answer;          // there once the prompt is on its way: it decodes all of it
  Sampler sampler;
  Random random;
  TokenLogProbs newest;  // of the token that is yet to be told
  std::optional<Error> failed = {};  // why it cannot go on
  Generated result;
};

Tensor next_logits(const CausalLm& model, const std::string& adapter,
                   const std::vector<std::span<const std::int32_t>>& rows, nn::KvCache& cache,
                   const RowPictures& pictures) {
  // A model that reads sources does so with the first token of its answers.
  const Seq2SeqLm* reader = cache.length(0) == 0 ? model.seq2seq_lm() : nullptr;
  const Batch batch = (reader ? sources_with_starts(rows, reader->decoder_start())
                               : rows_of_ids(rows, pictures))
                          .to(model.device());
  Pass pass(batch);
  pass.cache = &cache, pass.adapter = adapter;
  const Tensor hidden_BTD = model.forward(batch, pass).hidden_BTD;
  Tensor hidden_RD = hidden_BTD.flatten(0, 1);
  if (batch.length() > 1) {
    std::vector<std::int64_t> last;
    for (std::size_t r = 0; r < rows.size(); ++r)
      last.push_back(static_cast<std::int64_t>(r) * batch.length() + std::ssize(rows[r]) - (reader ? 0 : 1));
    hidden_RD = hidden_RD.index_select(0, devices::sent(at::tensor(last, at::kLong), hidden_RD.device()));
  }
  return model.head().logits(hidden_RD, pass);
}

namespace {

// What a form cannot do is its own line's matter: the others go on.
template <class Line, class Work>
void hold(Line& line, const Work& work) {
  if (!line.form || line.failed) return;
  try {
    work(*line.form);
  } catch (const Error& error) {
    line.failed = error;
  }
}

// Each line's next token, from logits [lines, V]. Rows are independent: the threads share them.
template <class Lines>
void choose(const Lines& lines, std::span<float> logits, std::vector<std::int32_t>& ids) {
  const std::size_t vocab = logits.size() / lines.size();
  ids.resize(lines.size());
  at::parallel_for(0, std::ssize(lines), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      auto& line = *lines[r];
      const std::span<float> own = logits.subspan(r * vocab, vocab);
      std::vector<float> given;  // choosing changes them
      if (line.log_probs >= 0) given.assign(own.begin(), own.end());
      restrain(own, *line.config, line.text, std::ssize(line.result.ids), line.ends);
      hold(line, [&](FormPlace& form) { form.restrain(own); });
      ids[r] = line.sampler.choose(own, line.random.uniform(line.result.ids.size()));
      if (line.form) ids[r] = line.form->nearest(ids[r], own);
      if (line.log_probs >= 0 && ids[r] >= 0) line.newest = log_probs_of(given, ids[r], line.log_probs);
    }
  });
}

// Where the configuration says what an answer begins with, or ends with where it is as long as it may be.
template <class Lines>
void force(const Lines& lines, std::vector<std::int32_t>& ids) {
  for (std::size_t r = 0; r < lines.size(); ++r) {
    const GenerateConfig& config = *lines[r]->config;
    const std::int64_t made = std::ssize(lines[r]->result.ids);
    if (made == 0 && config.forced_bos_token_id) ids[r] = static_cast<std::int32_t>(*config.forced_bos_token_id);
    if (made + 1 == lines[r]->most && config.forced_eos_token_id)
      ids[r] = static_cast<std::int32_t>(*config.forced_eos_token_id);
  }
}

template <class Lines>
bool all_greedy(const Lines& lines) {
  return std::all_of(lines.begin(), lines.end(), [](const auto& line) { return line->greedy(); });
}

// How many of each line's highest logits are enough for all of them; 0: all are needed.
template <class Lines>
std::int64_t highest_needed(const Lines& lines) {
  std::int64_t most = 0;
  for (const auto& line : lines) {
    const bool all = line->log_probs >= 0 || line->form || restrains(*line->config);
    const std::int64_t own = all ? 0 : line->sampler.highest_needed();
    if (own == 0) return 0;
    most = std::max(most, own);
  }
  return most;
}

// The same as choose() from each line's highest logits, where they are cheaper to have and enough. False: nothing was
// chosen.
template <class Lines>
bool choose_among_highest(const Lines& lines, nn::Decoder& decoder, std::vector<std::int32_t>& ids) {
  constexpr std::int64_t kBeyond = 4;  // logits are often equal, in bf16, and all that are as the lowest count
  const std::int64_t needed = highest_needed(lines);
  const nn::Decoder::Highest highest = needed > 0 ? decoder.highest(kBeyond * needed) : nn::Decoder::Highest{};
  if (highest.ids.empty()) return false;
  const std::size_t each = highest.ids.size() / lines.size();
  std::vector<std::int32_t> chosen(decoder.likeliest().begin(), decoder.likeliest().end());
  for (std::size_t r = 0; r < lines.size(); ++r) {
    auto& line = *lines[r];
    if (chosen[r] < 0) continue;  // not all are finite
    const auto own = [&](const auto& all) { return all.subspan(r * each, each); };
    const double uniform = line.random.uniform(line.result.ids.size());
    const auto id = line.sampler.choose_among(own(highest.logits), own(highest.ids), uniform);
    if (!id) return false;
    chosen[r] = *id;
  }
  ids = std::move(chosen);
  return true;
}

}  // namespace

TokenLogProbs log_probs_of(std::span<const float> logits, std::int32_t id, std::int64_t count) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - highest);
  const double whole = highest + std::log(sum);
  TokenLogProbs made;
  made.chosen = logits[static_cast<std::size_t>(id)] - whole;
  std::vector<std::int32_t> order(logits.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  const auto wanted =
      static_cast<std::ptrdiff_t>(std::min<std::int64_t>(std::max<std::int64_t>(count, 0), std::ssize(order)));
  std::partial_sort(order.begin(), order.begin() + wanted, order.end(), [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  });
  for (std::ptrdiff_t i = 0; i < wanted; ++i)
    made.likeliest.emplace_back(order[i], logits[static_cast<std::size_t>(order[i])] - whole);
  return made;
}

std::int64_t most_tokens(const Model& model, const GenerateConfig& config, std::int64_t prompt) {
  if (model.seq2seq_lm()) prompt = 1;
  return config.max_length ? std::min(config.max_new_tokens, *config.max_length - prompt) : config.max_new_tokens;
}

std::int64_t answer_limit(const Model& model, const GenerateConfig& config, std::int64_t prompt) {
  const std::int64_t most = most_tokens(model, config, prompt);
  if (model.seq2seq_lm()) prompt = 1;
  return model.positions_are_learned() ? std::min(most, model.max_positions() - prompt + 1) : most;
}

void check_prompt(const Model& model, const GenerateConfig& config, std::span<const std::int32_t> prompt,
                  const std::string& where) {
  if (prompt.empty())
    throw Error(ErrorKind::data, fmt::format("{}: no tokens; expected at least one", where))
        .hint("give it some text, or a tokenizer with a beginning-of-sequence token");
  if (model.positions_are_learned() && std::ssize(prompt) > model.max_positions())
    throw Error(ErrorKind::data,
                fmt::format("{}: {} tokens; expected at most {}, the positions that this model has learned", where,
                            prompt.size(), model.max_positions()));
  if (config.max_length && !model.seq2seq_lm() && std::ssize(prompt) >= *config.max_length)
    throw Error(ErrorKind::data,
                fmt::format("{}: {} tokens; expected fewer than max_length {}, which counts prompt and "
                            "answer together",
                            where, prompt.size(), *config.max_length))
        .hint("max_new_tokens takes the place of max_length, which generation_config.json may set");
  for (const std::int32_t id : prompt)
    if (id < 0 || id >= model.vocab_size())
      throw Error(ErrorKind::data,
                  fmt::format("{}: token id {} is beyond the model's vocabulary of {}", where, id, model.vocab_size()));
}

namespace {

// What stands for a picture in a prompt, without the words between its rows.
std::int64_t vectors_of(const DocPicture& picture, const PictureInput& input, std::span<const std::int32_t> prompt) {
  if (input.words != PictureWords::rows) return picture.tokens;
  const auto begin = prompt.begin() + std::clamp<std::int64_t>(picture.begin, 0, std::ssize(prompt));
  return std::count(begin, begin + std::clamp<std::int64_t>(picture.tokens, 0, prompt.end() - begin), input.token);
}

}  // namespace

void check_pictures(const Model& model, std::span<const std::int32_t> prompt, std::span<const DocPicture> pictures,
                    const std::string& where) {
  const PictureInput* input = model.pictures();
  if (!input) {
    if (pictures.empty()) return;
    throw Error(ErrorKind::data, where + ": has pictures, and the model reads none");
  }
  const std::int64_t places = std::ranges::count(prompt, input->token);
  std::int64_t tokens = 0;
  for (const DocPicture& picture : pictures) tokens += vectors_of(picture, *input, prompt);
  if (places == tokens) return;
  throw Error(ErrorKind::data,
              fmt::format("{}: {} of token {}, which stands for pictures; expected {}, those of its pictures", where,
                          places, input->token, tokens))
      .hint("a model would answer without having seen the picture");
}

void check_ends(const Model& model, const Tokenizer& tokenizer, const GenerateConfig& config) {
  check_stop_strings(tokenizer, config.stop);
  for (const std::int32_t id : config.eos_token_id)
    if (id < 0 || id >= model.vocab_size())
      throw Error(ErrorKind::config,
                  fmt::format("eos_token_id: got {}, expected 0 to {}, the model's ids", id, model.vocab_size() - 1));
  if (config.forced_bos_token_id && !model.seq2seq_lm())
    throw Error(ErrorKind::config, "forced_bos_token_id: is of models with an encoder; expected none");
  const auto check_forced = [&](const char* key, std::optional<std::int64_t> id) {
    if (id && *id >= model.vocab_size())
      throw Error(ErrorKind::config,
                  fmt::format("{}: got {}, expected 0 to {}, the model's ids", key, *id, model.vocab_size() - 1));
  };
  check_forced("forced_bos_token_id", config.forced_bos_token_id);
  check_forced("forced_eos_token_id", config.forced_eos_token_id);
}

Engine::Engine(const CausalLm& model, const Tokenizer& tokenizer, std::string adapter, std::int64_t rows)
    : model_(model), tokenizer_(tokenizer), adapter_(std::move(adapter)), most_rows_(rows) {}
Engine::~Engine() = default;

std::vector<std::int32_t> Engine::ends_of(const GenerateConfig& config) const {
  if (config.ignore_eos) return {};
  if (!config.eos_token_id.empty() || !tokenizer_.eos_id) return config.eos_token_id;
  return {*tokenizer_.eos_id};
}

void Engine::check_finite() const {
  for (std::size_t r = 0; r < ids_.size(); ++r)
    if (ids_[r] < 0)
      throw nn::not_finite(model_, fmt::format("logits of prompt {} after {} new tokens", lines_[r]->number + 1,
                                               lines_[r]->result.ids.size()));
}

// Where only the likeliest is wanted, a device finds it, and the host reads nothing else.
void Engine::choose_first(const Lines& lines, const Tensor& logits_RV, std::vector<std::int32_t>& ids) {
  if (!all_greedy(lines) || logits_RV.is_cpu())
    return choose(lines, host::mutable_values<float>(host::read(logits_RV.to(at::kFloat))), ids);
  const Tensor likeliest_R = host::read(ops::likeliest(logits_RV));
  const auto found = host::values<std::int64_t>(likeliest_R);
  ids.assign(found.begin(), found.end());
}

Tensor Engine::mixed_logits(const std::vector<std::span<const std::int32_t>>& rows, Caches& caches,
                            const RowPictures& pictures) const {
  const Tensor own_RV = next_logits(model_, adapter_, rows, *caches.own, pictures);
  if (!other_) return own_RV;
  const Tensor other_RV = next_logits(other_->model, other_->adapter, rows, *caches.other, pictures);
  return own_RV.to(at::kFloat) * (1 - other_->share) + other_RV.to(at::kFloat) * other_->share;
}

// What the answer goes on from.
std::vector<std::int32_t> Engine::before(const Asked& asked) const {
  if (const Seq2SeqLm* reader = model_.seq2seq_lm()) return {reader->decoder_start()};
  return {asked.prompt.begin(), asked.prompt.end()};
}

Engine::Begun Engine::read_all(const std::vector<std::span<const std::int32_t>>& prompts,
                               const RowPictures& pictures) {
  Begun made;
  made.caches.own = std::make_unique<nn::KvCache>(model_.cache_spec(), std::ssize(prompts));
  if (other_) made.caches.other = std::make_unique<nn::KvCache>(other_->model.cache_spec(), std::ssize(prompts));
  made.logits_RV = mixed_logits(prompts, made.caches, pictures);
  made.kept.assign(prompts.size(), 0);
  for (std::size_t i = 0; i < prompts.size(); ++i) made.rows.push_back(static_cast<std::int64_t>(i));
  return made;
}

// Each anew, as the same tokens may stand for other pictures.
Engine::Begun Engine::read_with_pictures(const std::vector<Asked>& asked) {
  std::vector<std::span<const std::int32_t>> prompts;
  RowPictures pictures;
  for (const Asked& one : asked) prompts.push_back(one.prompt), pictures.push_back(one.pictures);
  return read_all(prompts, pictures);
}

// Those that begin with what was kept in a pass of their own, behind the others.
Engine::Begun Engine::read(const std::vector<std::span<const std::int32_t>>& prompts) {
  std::vector<std::span<const std::int32_t>> fresh, rest;
  std::vector<std::int64_t> kept;
  std::vector<std::unique_ptr<nn::KvCache>> beginnings;
  std::int64_t longest = 0;  // of the rest
  for (const auto& prompt : prompts) {
    std::unique_ptr<nn::KvCache> beginning = kept_ ? kept_->beginning_of(prompt) : nullptr;
    kept.push_back(beginning ? beginning->length(0) : 0);
    (beginning ? rest : fresh).push_back(prompt.subspan(static_cast<std::size_t>(kept.back())));
    if (!beginning) continue;
    longest = std::max(longest, std::ssize(rest.back()));
    beginnings.push_back(std::move(beginning));
  }
  if (rest.empty()) return read_all(prompts);
  Caches begun;
  begun.own = nn::KvCache::joined(std::move(beginnings), longest);
  Begun made;
  const Tensor of_rest_RV = mixed_logits(rest, begun);
  if (fresh.empty()) {
    made.logits_RV = of_rest_RV, made.caches = std::move(begun);
  } else {
    made = read_all(fresh);
    made.logits_RV = at::cat({made.logits_RV, of_rest_RV});
    made.caches.own->add_rows(std::move(*begun.own));
  }
  std::int64_t first = 0, second = std::ssize(fresh);
  made.rows.clear();
  for (const std::int64_t count : kept) made.rows.push_back(count > 0 ? second++ : first++);
  made.kept = std::move(kept);
  return made;
}

// While a device makes the pass, the host reads how the answers' texts go on.
Engine::Begun Engine::begin(const std::vector<Asked>& asked, const Lines& lines, std::vector<std::int32_t>& ids) {
  std::vector<std::span<const std::int32_t>> input;
  std::vector<std::size_t> places;  // in `input`, for each line
  const bool pictures = std::ranges::any_of(asked, [](const Asked& one) { return !one.pictures.empty(); });
  for (const Asked& one : asked) {
    if (pictures || input.empty() || !std::ranges::equal(input.back(), one.prompt)) input.emplace_back(one.prompt);
    places.push_back(input.size() - 1);
  }
  Begun made = pictures ? read_with_pictures(asked) : read(input);
  for (std::size_t i = 0; i < input.size(); ++i) stats_.prompt_tokens += std::ssize(input[i]) - made.kept[i];
  std::vector<std::int64_t> rows, kept;
  for (const std::size_t place : places) rows.push_back(made.rows[place]), kept.push_back(made.kept[place]);
  if (input.size() < lines.size() || !std::ranges::is_sorted(rows)) {
    made.caches.own->keep(rows);
    if (made.caches.other) made.caches.other->keep(rows);
    made.logits_RV =
        made.logits_RV.index_select(0, devices::sent(at::tensor(rows, at::kLong), made.logits_RV.device()));
  }
  made.kept = std::move(kept);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    // An answer to a source is a text of its own.
    const std::vector<std::int32_t> prompt = model_.seq2seq_lm() ? std::vector<std::int32_t>() : before(asked[i]);
    lines[i]->answer.emplace(tokenizer_, prompt, lines[i]->config->stop);
  }
  choose_first(lines, made.logits_RV, ids);
  force(lines, ids);
  return made;
}

std::unique_ptr<Engine::Line> Engine::make_line(const Asked& asked) const {
  const std::vector<std::int32_t> begun = before(asked);
  auto line = std::make_unique<Line>(asked, begun, ends_of(*asked.config), model_.vocab_size());
  // An answer to a source is a text of its own.
  const auto text = std::span(begun).first(model_.seq2seq_lm() ? 0 : begun.size());
  if (auto form = asked.form ? asked.form : form_of(*asked.config, tokenizer_, model_.vocab_size()))
    line->form.emplace(std::move(form), tokenizer_, *asked.config, text, line->ends);
  return line;
}

std::vector<std::int64_t> Engine::add(const std::vector<Asked>& asked) {
  if (asked.empty()) return {};
  HONE_ASSERT(rows() + std::ssize(asked) <= most_rows_);
  const Stopwatch watch;
  Lines lines;
  for (const Asked& one : asked)
    lines.push_back(make_line(one));
  std::vector<std::int32_t> ids;
  Begun begun = begin(asked, lines, ids);
  Caches& caches = begun.caches;
  if (lines_.empty()) {
    // On a device the short way knows where the cache was, which is there no longer.
    if (other_)
      decoder_ = nullptr;
    else if (!decoder_ || !model_.device().is_cpu())
      decoder_ = nn::maybe_make_decoder(model_, most_rows_, adapter_);
    caches_ = std::move(caches);
  } else {
    caches_.own->add_rows(std::move(*caches.own));
    if (caches_.other) caches_.other->add_rows(std::move(*caches.other));
  }
  for (auto& line : lines) lines_.push_back(std::move(line));
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  stats_.prompt_seconds += watch.seconds();
  return begun.kept;
}

// From each line's last token to its next one.
void Engine::go_on() {
  stats_.decoded_tokens += std::ssize(ids_);
  if (decoder_ && decoder_->step(ids_, *caches_.own)) {
    if (all_greedy(lines_))
      ids_.assign(decoder_->likeliest().begin(), decoder_->likeliest().end());
    else if (!choose_among_highest(lines_, *decoder_, ids_))
      choose(lines_, decoder_->logits(), ids_);
    return force(lines_, ids_);
  }
  std::vector<std::span<const std::int32_t>> input;
  for (const std::int32_t& id : ids_) input.emplace_back(&id, 1);
  const Tensor logits_RV = mixed_logits(input, caches_);
  choose_first(lines_, logits_RV, ids_);
  force(lines_, ids_);
}

// Adds the line's next token; true: the line is finished, or has failed.
bool Engine::take(Line& line, std::int32_t id, const Told& told) {
  if (line.failed) return true;
  Generated& result = line.result;
  result.ids.push_back(id);
  line.sampler.seen(id);
  line.text.push_back(id);
  hold(line, [&](FormPlace& form) { form.take(id); });
  if (line.failed) return true;
  const bool eos = std::find(line.ends.begin(), line.ends.end(), id) != line.ends.end();
  std::string text = eos ? "" : line.answer->push(id);
  const bool complete = line.form && line.form->is_complete();
  const bool done = eos || complete || line.answer->stopped() || std::ssize(result.ids) >= line.most;
  if (done) text += line.answer->finish();
  if (told) told(line.number, id, text, line.log_probs >= 0 ? &line.newest : nullptr);
  if (!done) return false;
  result.reason = line.answer->stopped() || complete ? FinishReason::stop
                  : eos                              ? FinishReason::eos
                                                     : FinishReason::length;
  result.text = line.answer->text();
  return true;
}

void Engine::step(const Told& told, const Finished& finished, const Failed& failed) {
  const Stopwatch watch;
  check_finite();
  for (std::size_t r = 0; r < lines_.size(); ++r) {
    if (!lines_[r] || !take(*lines_[r], ids_[r], told)) continue;
    if (const auto& why = lines_[r]->failed) {
      if (!failed) throw Error(*why);
      failed(lines_[r]->number, *why);
    } else {
      finished(lines_[r]->number, lines_[r]->result);
    }
    keep_text(r);
    lines_[r].reset();
  }
  drop_finished();
  if (!lines_.empty()) go_on();
  stats_.decode_seconds += watch.seconds();
}

void Engine::leave(std::size_t number) {
  for (std::size_t r = 0; r < lines_.size(); ++r)
    if (lines_[r]->number == number) keep_text(r), lines_[r].reset();
  drop_finished();
}

// What was read of prompt and answer.
void Engine::keep_text(std::size_t row) {
  if (!kept_ || lines_[row]->has_pictures) return;
  const Line& line = *lines_[row];
  const auto at = static_cast<std::int64_t>(row);
  const std::int64_t read = std::min(std::ssize(line.text), caches_.own->length(at));
  kept_->keep(std::span(line.text).first(static_cast<std::size_t>(read)), *caches_.own, at);
}

// Lines that are there no longer leave the batch; the last ones take their places.
void Engine::drop_finished() {
  for (std::size_t r = 0; r < lines_.size();) {
    if (lines_[r]) {
      ++r;
      continue;
    }
    caches_.own->drop(static_cast<std::int64_t>(r));
    if (caches_.other) caches_.other->drop(static_cast<std::int64_t>(r));
    lines_[r] = std::move(lines_.back()), ids_[r] = ids_.back();
    lines_.pop_back(), ids_.pop_back();
  }
  if (lines_.empty()) caches_ = {};
}

}  // namespace hone::generate
