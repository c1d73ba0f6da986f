// Questions about a text: fields, and windows of tokens.
#include "data/questions.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/option_words.h"
#include "base/strings.h"
#include "data/prompt_fields.h"
#include "hone/error.h"
#include "text/tokenizer/json_tokenizer.h"
#include "text/tokenizer/token_types.h"
#include "text/unicode/unicode.h"

namespace hone::data {
namespace {

using json = nlohmann::ordered_json;
using GivenAnswer = QuestionRecord::Answer;

constexpr const char* kAnswers = "{\"text\": [...], \"answer_start\": [...]}";

// A byte range of the context.
struct Stretched {
  std::uint32_t begin = 0, end = 0;
};

std::uint32_t bytes_of_characters(std::string_view text, std::int64_t characters) {
  std::size_t at = 0;
  while (characters-- > 0 && at < text.size()) text::next_code_point(text, at);
  return static_cast<std::uint32_t>(at);
}

Stretched place_of(const GivenAnswer& answer, const std::string& context) {
  const std::uint32_t begin = bytes_of_characters(context, answer.start);
  return {begin, begin + static_cast<std::uint32_t>(answer.text.size())};
}

// As many texts as places.
std::vector<GivenAnswer> answers_of(const json& texts, const json& starts, const FieldPlace& given) {
  const auto listed = [](const json& value) { return value.is_array() ? value : json::array({value}); };
  const json all = listed(texts), places = listed(starts);
  if (all.size() != places.size())
    throw given.bad(fmt::format("{} and {}", counted(std::ssize(all), "text"), counted(std::ssize(places), "place")),
                    "a place for each text");
  std::vector<GivenAnswer> answers;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].is_string()) throw given.bad(type_of(all[i]) + " as the text of an answer", "a text");
    if (!places[i].is_number_integer() || places[i].get<std::int64_t>() < 0)
      throw given.bad(places[i].is_number() ? "answer_start " + places[i].dump() : type_of(places[i]),
                      "a whole number of characters");
    answers.push_back({all[i].get<std::string>(), places[i].get<std::int64_t>()});
  }
  return answers;
}

std::vector<GivenAnswer> read_answers(const json& value, const FieldPlace& given) {
  const auto member = [&](const json& object, const char* key) -> const json& {
    const auto found = object.find(key);
    if (found == object.end()) throw given.bad(std::string("no ") + key, kAnswers);
    return *found;
  };
  if (value.is_object()) return answers_of(member(value, "text"), member(value, "answer_start"), given);
  if (!value.is_array()) throw given.bad(type_of(value), kAnswers);
  std::vector<GivenAnswer> all;
  for (const json& one : value) {
    if (!one.is_object()) throw given.bad(type_of(one) + " in the list", kAnswers);
    for (GivenAnswer& answer : answers_of(member(one, "text"), member(one, "answer_start"), given))
      all.push_back(std::move(answer));
  }
  return all;
}

void check_place(const GivenAnswer& answer, const std::string& context, const FieldPlace& given) {
  const auto [begin, end] = place_of(answer, context);
  if (answer.text.empty()) throw given.bad("an empty answer", "a part of the context, or no answer at all");
  const std::string is = begin < context.size() ? context.substr(begin, answer.text.size()) : "";
  if (is != answer.text)
    throw given
        .bad(fmt::format("{} at {}", hone::quoted(escape_for_terminal(answer.text, 60)), answer.start),
             is.empty() ? "a place in the context"
                        : fmt::format("{}, which stands there", hone::quoted(escape_for_terminal(is, 60))))
        .hint("answer_start counts characters (code points) of the context from 0");
}

const text::JsonTokenizer& joining(const Tokenizer& tokenizer) {
  const auto* json = dynamic_cast<const text::JsonTokenizer*>(&tokenizer);
  if (!json) throw Error(ErrorKind::config, "this tokenizer has ids and offsets only, and puts no texts together");
  return *json;
}

// The tokens from first on, one behind another, that hold the bytes; nothing: not all of them.
std::optional<std::pair<std::size_t, std::size_t>> tokens_with(const QuestionDoc& doc, const Stretched& wanted) {
  const auto& bytes = doc.bytes;
  if (bytes.empty() || bytes.front().first > wanted.begin || bytes.back().second < wanted.end) return std::nullopt;
  std::size_t start = 0, end = bytes.size() - 1;
  while (start + 1 < bytes.size() && bytes[start + 1].first <= wanted.begin) ++start;
  while (end > 0 && bytes[end - 1].second >= wanted.end) --end;
  return std::pair{start, std::max(start, end)};
}

std::int32_t number_of(AnswerPlace place) { return static_cast<std::int32_t>(place); }

QuestionWindow window_of(FullEncoding&& made, const std::optional<Stretched>& answer, bool typed) {
  QuestionWindow window;
  const std::size_t size = made.ids.size();
  const auto is_of_context = [&](std::size_t i) { return made.sequences[i] == 1 && !made.special_mask[i]; };
  std::size_t first = 0;
  while (first < size && !is_of_context(first)) ++first;
  window.doc.first = static_cast<std::uint32_t>(first);
  for (std::size_t i = first; i < size && is_of_context(i); ++i) window.doc.bytes.push_back(made.offsets[i]);
  window.labels.assign(size, -100);
  std::fill_n(window.labels.begin() + static_cast<std::ptrdiff_t>(first), window.doc.bytes.size(),
              number_of(AnswerPlace::inside));
  std::pair<std::size_t, std::size_t> places{0, 0};
  if (answer)
    if (const auto found = tokens_with(window.doc, *answer)) places = {first + found->first, first + found->second};
  const bool one = places.first == places.second;
  window.labels[places.first] = number_of(one ? AnswerPlace::start_and_end : AnswerPlace::start);
  if (!one) window.labels[places.second] = number_of(AnswerPlace::end);
  const auto second =
      std::find_if(made.type_ids.begin(), made.type_ids.end(), [&](auto type) { return typed && type != 0; });
  window.tags.names = answer_places();
  window.tags.second = static_cast<std::uint32_t>(second - made.type_ids.begin());
  window.ids = std::move(made.ids);
  return window;
}

}  // namespace

const std::vector<std::string>& answer_places() {
  static const std::vector<std::string> names = {"inside", "start", "end", "start and end"};
  return names;
}

const std::vector<std::string>& question_fields() {
  static const std::vector<std::string> names = {"question", "context", "answers", "id"};
  return names;
}

Form question_form(const std::vector<std::string>& names, const std::map<std::string, std::string>& columns,
                   const Place& place) {
  const auto missing = [&](const std::string& name) {
    const bool nested = has(names, "paragraphs") || has(names, "data");
    throw Error(ErrorKind::data,
                fmt::format("{}: no field {}; found {}; expected question, context and answers", place.text(),
                            hone::quoted(name), names.empty() ? "none" : list_names(names)))
        .hint(nested ? "SQuAD's own files hold articles; write each of their questions as a record, as in the data "
                       "sets squad and squad_v2"
                     : advise_columns({{"question", first_of(names, {"question", "query", "prompt"})},
                                       {"context", first_of(names, {"context", "passage", "text", "document"})},
                                       {"answers", first_of(names, {"answers", "answer"})}},
                                      {{"question", "query"}, {"context", "passage"}}));
  };
  const auto find = field_finder(names, columns, missing);
  Form form;
  form.question = find("question"), form.context = find("context");
  form.answers = find("answers"), form.id = find("id");
  if (form.question.empty()) missing("question");
  if (form.context.empty()) missing("context");
  if (form.answers.empty()) missing("answers");
  return form;
}

QuestionRecord read_question(const json& value, const Form& form, const Place& place) {
  QuestionRecord record{.question = text_field(value, form.question, place),
                        .context = text_field(value, form.context, place)};
  if (!form.id.empty()) {
    const json& id = *find_field(value, form.id);
    record.id = id.is_string() ? id.get<std::string>() : id.dump();
  }
  const FieldPlace given{form.answers, place};
  record.answers = read_answers(*find_field(value, form.answers), given);
  for (const GivenAnswer& answer : record.answers) check_place(answer, record.context, given);
  if (const json* none = find_field(value, "is_impossible");
      none && none->is_boolean() && none->get<bool>() != record.answers.empty())
    throw FieldPlace{"is_impossible", place}.bad(none->dump(), record.answers.empty() ? "true, as there is no answer"
                                                                                      : "false, as there are answers");
  return record;
}

std::vector<QuestionWindow> question_windows(const QuestionRecord& record, const Tokenizer& tokenizer, std::size_t most,
                                             std::size_t stride, const std::string& place) {
  for (const auto& [what, text] : {std::pair{"question", &record.question}, {"context", &record.context}}) {
    if (!is_utf8(*text)) throw Error(ErrorKind::data, fmt::format("{}: {}: invalid UTF-8", place, what));
    if (trim(*text).empty())
      throw Error(ErrorKind::data, fmt::format("{}: {}: got an empty text, expected one", place, what))
          .hint("leave the record out");
  }
  const std::string_view question =
      std::string_view(record.question).substr(record.question.find_first_not_of(" \t\n\r\f\v"));  // as run_qa does
  const auto check = [&](std::size_t left, std::size_t needed) {
    const bool shares = left > 0 && needed > left;  // the first token of a window would be one of the window before
    if (left > (shares ? stride : 0)) return;
    const std::string expected = shares ? fmt::format("more than the {} that windows share", stride) : "one at least";
    throw Error(ErrorKind::data, fmt::format("{}: the question leaves {} for the context, of {}; expected {}", place,
                                             counted(static_cast<std::int64_t>(left), "token"), most, expected))
        .hint(fmt::format("raise {}{}", option_words("data.max_length"),
                          shares ? ", or lower " + option_words("objective.doc_stride") : ""));
  };
  std::vector<FullEncoding> all =
      joining(tokenizer).encode_windows({question, record.context}, most, stride, check);
  std::optional<Stretched> answer;
  if (!record.answers.empty()) answer = place_of(record.answers[0], record.context);
  std::vector<QuestionWindow> windows;
  for (FullEncoding& one : all) {
    if (std::any_of(one.type_ids.begin(), one.type_ids.end(), [](auto type) { return type != 0 && type != 1; }))
      throw Error(ErrorKind::config, place + ": the tokenizer gives types other than 0 and 1; these are not supported");
    windows.push_back(window_of(std::move(one), answer, text::gives_token_types(tokenizer)));
  }
  return windows;
}

}  // namespace hone::data
