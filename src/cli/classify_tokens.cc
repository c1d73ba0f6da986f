// What a model with a head for tokens says of words, entities and steps.
#include "cli/classify_tokens.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>

#include "base/strings.h"
#include "cli/output.h"
#include "cli/run_recipe.h"
#include "data/form.h"
#include "data/token_labels.h"
#include "evals/entities.h"
#include "hone/batch.h"
#include "hone/config.h"
#include "nn/finite.h"
#include "tensor/host.h"
#include "train/inputs.h"

namespace hone::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kKnown[] = {"text", "tokens", "prompt", "completions"};
constexpr const char* kExpected = "a string, or an object with text, tokens, or prompt and completions";

const std::map<std::string, std::string>& checked(const std::map<std::string, std::string>& columns) {
  for (const auto& [known, name] : columns)
    if (name.empty() || std::find(std::begin(kKnown), std::end(kKnown), known) == std::end(kKnown))
      throw Error(ErrorKind::usage,
                  fmt::format("--columns: \"{}\" is not read; expected text, tokens, or prompt and completions",
                              escape_for_terminal(known)));
  return columns;
}

std::string text_in(const ordered_json& value, const char* name, const data::Place& place) {
  if (!value.is_string()) throw data::FieldPlace{name, place}.bad(data::type_of(value), "a text");
  std::string text = value.get<std::string>();
  if (!is_utf8(text)) throw data::FieldPlace{name, place}.bad("invalid UTF-8", "a text");
  return text;
}

std::vector<std::string> texts_in(const ordered_json& value, const char* name, const data::Place& place) {
  if (!value.is_array()) throw data::FieldPlace{name, place}.bad(data::type_of(value), "a list of texts");
  std::vector<std::string> texts;
  for (const ordered_json& one : value) texts.push_back(text_in(one, name, place));
  return texts;
}

}  // namespace

HostDoc document_of(std::span<const std::int32_t> ids, const Model& model, const data::Place& place) {
  if (ids.empty()) throw Error(ErrorKind::data, place.text() + ": nothing to classify; got an empty text");
  HostDoc doc;
  doc.ids.assign(ids.begin(), ids.end());
  const std::int64_t highest = *std::max_element(doc.ids.begin(), doc.ids.end());
  if (highest >= model.vocab_size())
    throw Error(ErrorKind::data, fmt::format("{}: token id {}; expected less than the model's vocabulary of {}",
                                             place.text(), highest, model.vocab_size()))
        .hint("is this the model's tokenizer?");
  doc.targets.assign(doc.ids.size(), -100);
  return doc;
}

std::string step_separator_of(const ModelPlace& place, const std::optional<std::string>& given) {
  if (given) return *given;
  const auto own = RunRecipe(place).option("process_reward", "objective", "step_separator");
  return own.value_or(TokenLabels().step_separator);
}

TokenAnswers::TokenAnswers(const Model& model, const Tokenizer& tokenizer, How how)
    : model_(model), tokenizer_(tokenizer), how_(std::move(how)), templates_(checked(how_.columns)) {}

const ordered_json* TokenAnswers::find(const ordered_json& value, const char* known) const {
  const std::string made = templates_.made_field(known);
  const auto named = how_.columns.find(known);
  return data::find_field(value, !made.empty() ? made : named == how_.columns.end() ? known : named->second);
}

TokenAnswers::Asked TokenAnswers::words_of(const ordered_json& value, const data::Place& place) {
  const ordered_json* tokens = value.is_object() ? find(value, "tokens") : nullptr;
  const ordered_json* text = value.is_string() ? &value : value.is_object() ? find(value, "text") : nullptr;
  if (!tokens && !text)
    throw Error(ErrorKind::data, fmt::format("{}: got {}, expected {}", place.text(), data::type_of(value), kExpected));
  if (tokens && text) throw Error(ErrorKind::data, place.text() + ": text and tokens; expected one of them");
  const std::string plain = text ? text_in(*text, "text", place) : "";
  const data::JoinedWords given =
      tokens ? data::join_words(texts_in(*tokens, "tokens", place)) : data::JoinedWords{plain, data::words_in(plain)};
  if (given.words.empty()) document_of({}, model_, place);
  const auto most = static_cast<std::size_t>(how_.data.max_length);
  const data::WordTokens made = data::tokens_of_words(tokenizer_, given.text, given.words, most, /*keep_end=*/false);
  cut_ += made.cut > 0;
  Asked asked{.text = given.text};
  std::vector<std::int32_t> ids;
  for (const data::WordTokens::Token& one : made.tokens) {
    ids.push_back(one.id);
    if (one.word < 0) continue;
    const auto word = static_cast<std::size_t>(one.word);
    if (one.first)
      asked.parts.push_back(
          {.token = ids.size() - 1, .start = one.word, .end = one.word + 1, .bytes = given.words[word]});
    asked.parts.back().bytes.end = std::max(asked.parts.back().bytes.end, one.end);
  }
  std::vector<std::pair<std::uint32_t, std::uint32_t>> bytes;
  for (const Part& part : asked.parts) bytes.emplace_back(part.bytes.begin, part.bytes.end);
  const auto characters = in_characters(given.text, bytes);
  for (std::size_t i = 0; i < asked.parts.size(); ++i) {
    asked.parts[i].text = given.text.substr(bytes[i].first, bytes[i].second - bytes[i].first);
    if (text) asked.parts[i].start = characters[i].first, asked.parts[i].end = characters[i].second;
  }
  asked.document = document_of(ids, model_, place);
  return asked;
}

TokenAnswers::Asked TokenAnswers::steps_of(const ordered_json& value, const data::Place& place) {
  const ordered_json* prompt = find(value, "prompt");
  StepsRecord record{.prompt = prompt ? text_in(*prompt, "prompt", place) : "",
                     .steps = texts_in(*find(value, "completions"), "completions", place)};
  record.labels.assign(record.steps.size(), "step");
  const data::TaggedTokens tokens = data::from_steps(
      record, {tokenizer_, how_.data.token_labels, static_cast<std::size_t>(how_.data.max_length)}, place);
  cut_ += tokens.tags.cut > 0;
  Asked asked{.document = document_of(tokens.ids, model_, place), .of_steps = true};
  for (std::size_t i = 0; i < tokens.labels.size(); ++i)
    if (tokens.labels[i] != -100) asked.parts.push_back({.token = i, .text = record.steps[asked.parts.size()]});
  return asked;
}

void TokenAnswers::add(ordered_json value, const data::Place& place) {
  const ordered_json given = value;
  if (value.is_object()) {
    templates_.fill(value, place);
    for (const auto& [name, field] : given.items()) {
      const auto is_read = [&, &name = name](const char* known) {
        const auto named = how_.columns.find(known);
        const std::string source = named == how_.columns.end() ? known : named->second;
        return name == source || source.starts_with(name + ".");
      };
      if (std::none_of(std::begin(kKnown), std::end(kKnown), is_read) && !templates_.reads(name)) unread_.insert(name);
    }
  }
  waiting_.push_back(value.is_object() && find(value, "completions") ? steps_of(value, place) : words_of(value, place));
  if (std::ssize(waiting_) == how_.batch_size) flush();
}

void TokenAnswers::flush() {
  if (waiting_.empty()) return;
  const c10::NoGradGuard no_grad;
  std::vector<HostRow> rows;
  for (Asked& asked : waiting_) rows.push_back({std::move(asked.document)});
  const Batch batch = to_batch(pad(rows, training::pad_id_of(tokenizer_, model_.vocab_size()))).to(model_.device());
  Pass pass(batch);
  const Tensor logits_BTL = model_.classifier()->logits(model_.forward(batch, pass), pass);
  const Tensor shares_BTL = host::read(logits_BTL.to(at::kDouble)).softmax(-1).contiguous();
  const auto shares = host::values<double>(shares_BTL);
  const auto labels = static_cast<std::size_t>(shares_BTL.size(2)), length = static_cast<std::size_t>(batch.length());
  for (std::size_t row = 0; row < waiting_.size(); ++row) {
    for (Part& part : waiting_[row].parts) {
      const auto all = shares.subspan((row * length + part.token) * labels, labels);
      if (!std::all_of(all.begin(), all.end(), [](double one) { return std::isfinite(one); }))
        throw nn::not_finite(model_, "a logit");
      part.probabilities.assign(all.begin(), all.end());
      part.label = static_cast<std::size_t>(std::max_element(all.begin(), all.end()) - all.begin());
    }
    print(waiting_[row]);
  }
  answered_ += std::ssize(waiting_);
  waiting_.clear();
}

// With the mean of what its words' labels have.
ordered_json TokenAnswers::entities_of(const Asked& asked) const {
  std::vector<std::int64_t> said;
  for (const Part& part : asked.parts) said.push_back(static_cast<std::int64_t>(part.label));
  ordered_json all = ordered_json::array();
  for (const evals::Entity& one : evals::entities_of(said, model_.classifier()->labels())) {
    const Part &first = asked.parts[one.begin], &last = asked.parts[one.end - 1];
    double sum = 0;
    for (std::size_t i = one.begin; i < one.end; ++i) sum += asked.parts[i].probabilities[asked.parts[i].label];
    all.push_back({{"label", one.type},
                   {"text", asked.text.substr(first.bytes.begin, last.bytes.end - first.bytes.begin)},
                   {"start", first.start},
                   {"end", last.end},
                   {"probability", sum / static_cast<double>(one.end - one.begin)}});
  }
  return all;
}

ordered_json TokenAnswers::parts_of(const Asked& asked) const {
  const std::vector<std::string>& labels = model_.classifier()->labels();
  ordered_json all = ordered_json::array();
  for (const Part& part : asked.parts) {
    ordered_json one = {{"label", labels[part.label]}, {"text", part.text}};
    if (!asked.of_steps) one["start"] = part.start, one["end"] = part.end;
    one["probability"] = part.probabilities[part.label];
    for (std::size_t i = 0; asked.of_steps && i < labels.size(); ++i)
      one["probabilities"][labels[i]] = part.probabilities[i];
    all.push_back(std::move(one));
  }
  return all;
}

void TokenAnswers::print(const Asked& asked) const {
  const bool entities = !asked.of_steps && evals::mark_entities(model_.classifier()->labels());
  const char* const parts = asked.of_steps ? "steps" : "words";
  ordered_json line;
  if (entities) line["entities"] = entities_of(asked);
  if (!entities || how_.words) line[parts] = parts_of(asked);
  if (how_.json) return write_json(line);
  std::vector<std::string> shown;
  for (const ordered_json& one : how_.words || !entities ? line[parts] : line["entities"])
    shown.push_back(fmt::format("{}\t{}\t{:.4f}", escape_for_terminal(one["label"].get<std::string>()),
                                escape_for_terminal(one["text"].get<std::string>()), one["probability"].get<double>()));
  std::cout << join(shown, "\t") << '\n';
}

}  // namespace hone::cli
