// What a model that answers questions says where in a text the answer stands.
#include "cli/classify_questions.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "base/strings.h"
#include "cli/classify_tokens.h"
#include "cli/output.h"
#include "data/form.h"
#include "data/questions.h"
#include "nn/finite.h"
#include "tensor/host.h"
#include "train/inputs.h"

namespace hone::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kAskedFields[] = {"question", "context", "id"};

objectives::AnswerOptions answer_options(const QuestionFlags& flags) {
  objectives::AnswerOptions options;
  options.n_best = std::max(options.n_best, flags.n_best.value_or(1));
  options.max_answer_length = flags.max_answer_length.value_or(options.max_answer_length);
  options.null_threshold = flags.null_threshold;
  return options;
}

}  // namespace

QuestionAnswers::QuestionAnswers(const Model& model, const Tokenizer& tokenizer, const QuestionFlags& flags, How how)
    : model_(model),
      tokenizer_(tokenizer),
      flags_(flags),
      how_(std::move(how)),
      options_(answer_options(flags)),
      templates_(how_.columns) {
  for (const auto& [known, field] : how_.columns)
    if (field.empty() || std::find(std::begin(kAskedFields), std::end(kAskedFields), known) == std::end(kAskedFields))
      throw Error(ErrorKind::usage,
                  fmt::format("--columns: {}: expected a field for question, context or id", hone::quoted(known)));
}

std::string QuestionAnswers::text_at(const ordered_json& value, const char* known, const data::Place& place) const {
  const auto named = how_.columns.find(known);
  const std::string made = templates_.made_field(known);
  const std::string field = !made.empty() ? made : named == how_.columns.end() ? known : named->second;
  const ordered_json* found = data::find_field(value, field);
  if (!found && std::string_view(known) == "id") return "";
  if (!found)
    throw Error(ErrorKind::data, fmt::format("{}: no field {}; expected an object with question and context",
                                             place.text(), hone::quoted(field)));
  if (std::string_view(known) == "id" && !found->is_string()) return found->dump();
  if (!found->is_string())
    throw Error(ErrorKind::data, fmt::format("{}: field {}: got {}, expected a string", place.text(),
                                             hone::quoted(field), data::type_of(*found)));
  return found->get<std::string>();
}

void QuestionAnswers::add(ordered_json value, const data::Place& place) {
  if (!value.is_object())
    throw Error(ErrorKind::data, fmt::format("{}: got {}, expected an object with question and context", place.text(),
                                             data::type_of(value)));
  for (const auto& [name, field] : value.items()) {
    const auto reads = [&, &name = name](const char* known) {
      const auto named = how_.columns.find(known);
      const std::string& source = named == how_.columns.end() ? known : named->second;
      return name == source || source.starts_with(name + ".");
    };
    if (!templates_.reads(name) && std::none_of(std::begin(kAskedFields), std::end(kAskedFields), reads))
      unread_.insert(name);
  }
  templates_.fill(value, place);
  QuestionRecord asked{.question = text_at(value, "question", place), .context = text_at(value, "context", place)};
  asked.id = text_at(value, "id", place);
  add(std::move(asked), place);
}

void QuestionAnswers::add(QuestionRecord record, const data::Place& place) {
  const auto asked = std::make_shared<const QuestionRecord>(std::move(record));
  Asked made;
  for (data::QuestionWindow& window :
       data::question_windows(*asked, tokenizer_, static_cast<std::size_t>(how_.max_length),
                              static_cast<std::size_t>(how_.doc_stride), place.text())) {
    HostDoc doc = document_of(window.ids, model_, place);
    if (window.tags.second < doc.ids.size()) {
      std::vector<std::int64_t>& types = doc.per_token["token_type_ids"];
      types.assign(doc.ids.size(), 0);
      std::fill(types.begin() + window.tags.second, types.end(), 1);
    }
    made.rows.push_back({std::move(doc)});
    made.docs.push_back(std::move(window.doc));
    made.docs.back().asked = asked;
  }
  windows_ += std::ssize(made.rows);
  waiting_.push_back(std::move(made));
  if (windows_ >= how_.batch_size) flush();
}

std::vector<objectives::WindowAnswers> QuestionAnswers::answers_to(const std::vector<HostRow>& rows,
                                                                   const std::vector<const QuestionDoc*>& docs) const {
  const Batch batch = to_batch(pad(rows, training::pad_id_of(tokenizer_, model_.vocab_size()))).to(model_.device());
  Pass pass(batch);
  const Tensor logits_BT2 =
      host::read(model_.classifier()->logits(model_.forward(batch, pass), pass).to(at::kFloat).contiguous());
  const auto logits = host::values<float>(logits_BT2);
  std::vector<objectives::WindowAnswers> windows;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    std::vector<float> starts, ends;
    for (std::size_t i = 0; i < rows[row][0].ids.size(); ++i) {
      const std::size_t at = 2 * (row * static_cast<std::size_t>(batch.length()) + i);
      starts.push_back(logits[at]), ends.push_back(logits[at + 1]);
    }
    const auto is_finite = [](float one) { return std::isfinite(one); };
    if (!std::all_of(starts.begin(), starts.end(), is_finite) || !std::all_of(ends.begin(), ends.end(), is_finite))
      throw nn::not_finite(model_, "a logit");
    windows.push_back(objectives::answers_in(starts, ends, docs[row]->first, std::ssize(docs[row]->bytes), options_));
  }
  return windows;
}

// All windows that wait, so many at a time; a question's may lie in several passes.
void QuestionAnswers::flush() {
  const c10::NoGradGuard no_grad;
  std::vector<HostRow> rows;
  std::vector<const QuestionDoc*> docs;
  std::vector<objectives::WindowAnswers> windows;
  const auto run = [&] {
    if (rows.empty()) return;
    const std::vector<const QuestionDoc*> of_rows(docs.end() - std::ssize(rows), docs.end());
    for (auto& one : answers_to(rows, of_rows)) windows.push_back(std::move(one));
    rows.clear();
  };
  for (Asked& asked : waiting_)
    for (std::size_t i = 0; i < asked.rows.size(); ++i) {
      rows.push_back(std::move(asked.rows[i])), docs.push_back(&asked.docs[i]);
      if (std::ssize(rows) == how_.batch_size) run();
    }
  run();
  auto window = windows.begin();
  for (const Asked& asked : waiting_) {
    std::vector<const QuestionDoc*> own;
    for (const QuestionDoc& doc : asked.docs) own.push_back(&doc);
    const std::vector<objectives::WindowAnswers> said(window, window + std::ssize(own));
    window += std::ssize(own);
    print(objectives::answer_of(own, said, options_), *own[0]->asked);
  }
  answered_ += std::ssize(waiting_);
  waiting_.clear(), windows_ = 0;
}

ordered_json QuestionAnswers::json_of(const objectives::FoundAnswer& answer, const QuestionRecord& asked) const {
  ordered_json one = {{"answer", answer.text}};
  if (!answer.text.empty()) {
    const std::pair<std::uint32_t, std::uint32_t> bytes[] = {{answer.begin, answer.end}};
    const auto characters = in_characters(asked.context, bytes)[0];
    one["start"] = characters.first, one["end"] = characters.second;
  }
  one["score"] = answer.score, one["probability"] = answer.probability;
  return one;
}

void QuestionAnswers::print(const objectives::AnsweredQuestion& answered, const QuestionRecord& asked) const {
  std::vector<objectives::FoundAnswer> shown{answered.given};
  if (flags_.n_best)
    shown.assign(answered.best.begin(), answered.best.begin() + std::min(std::ssize(answered.best), *flags_.n_best));
  if (how_.json) {
    ordered_json line;
    if (!asked.id.empty()) line["id"] = asked.id;
    line.update(json_of(answered.given, asked));
    if (options_.null_threshold) line["null_difference"] = answered.null_difference;
    if (flags_.n_best)
      for (const objectives::FoundAnswer& one : shown) line["answers"].push_back(json_of(one, asked));
    return write_json(line);
  }
  std::vector<std::string> parts;
  for (const objectives::FoundAnswer& one : shown)
    parts.push_back(fmt::format("{}\t{:.4f}", escape_for_terminal(one.text), one.probability));
  std::cout << join(parts, "\t") << '\n';
}

}  // namespace hone::cli
