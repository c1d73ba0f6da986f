// What a label may be, and what labels mean.
#include "data/labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "base/log.h"
#include "base/strings.h"
#include "hone/error.h"

namespace hone::data {
namespace {

using json = nlohmann::ordered_json;

constexpr const char* kOne = "a name or a whole number";
constexpr const char* kSeveral = "a list of names or whole numbers";
constexpr const char* kNumber = "a number, or a list of numbers";

// Without white space around it, which tables and hands leave and nobody means.
std::string name_in(const std::string& given_text, const FieldPlace& given) {
  if (!is_utf8(given_text)) throw given.bad("invalid UTF-8", kOne);
  if (given_text.find('\0') != std::string::npos) throw given.bad("a zero byte", kOne);
  const std::string text(trim(given_text));
  if (text.empty()) throw given.bad("an empty text", kOne);
  if (const auto number = parse_int(text); number && *number < 0)
    throw given.bad(text, "a label of 0 or more")
        .hint("data sets mark records whose label is kept secret so: leave this file out");
  return text;
}

std::string name_in(const json& value, const FieldPlace& given) {
  if (value.is_string()) return name_in(value.get_ref<const std::string&>(), given);
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_number_integer()) return name_in(value.dump(), given);
  if (value.is_array())
    throw given.bad("a list", kOne)
        .hint("problem_type: multi_label_classification learns several labels of a text");
  if (value.is_number_float())
    throw given.bad(value.dump(), kOne).hint("problem_type: regression learns numbers");
  throw given.bad(type_of(value), kOne);
}

void sort_labels(std::vector<std::string>& labels) {
  const bool numbers = std::all_of(labels.begin(), labels.end(), [](const auto& label) { return parse_int(label); });
  if (!numbers) return std::sort(labels.begin(), labels.end());
  std::sort(labels.begin(), labels.end(), [](const auto& a, const auto& b) { return *parse_int(a) < *parse_int(b); });
}

// A set of labels has no order.
std::string set_of(std::vector<std::string> names, const FieldPlace& given) {
  sort_labels(names);
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    throw given.bad(hone::quoted(*twice) + " twice in a list", "each label once")
        .hint("the list has the labels of the text, not a 0 or 1 for each label that there is");
  return json(names).dump();
}

std::string set_in(const json& value, const FieldPlace& given) {
  std::vector<std::string> names;
  if (!value.is_array()) return set_of({name_in(value, given)}, given);
  for (const json& one : value) {
    if (one.is_number_float() || one.is_array())
      throw given.bad(one.is_array() ? "a list in a list" : one.dump() + " in a list", kSeveral)
          .hint("the list has the labels of the text, not a 0 or 1 for each label that there is");
    names.push_back(name_in(one, given));
  }
  return set_of(std::move(names), given);
}

double number_in(const json& value, const FieldPlace& given) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) throw given.bad(type_of(value), kNumber);
  const std::string& text = value.get_ref<const std::string&>();
  if (const auto number = parse_double(trim(text))) return *number;
  throw given.bad(hone::quoted(text), kNumber);
}

std::string numbers_in(const json& value, const FieldPlace& given) {
  if (!value.is_array()) return json(number_in(value, given)).dump();
  std::vector<double> numbers;
  for (const json& one : value) numbers.push_back(number_in(one, given));
  if (numbers.empty()) throw given.bad("an empty list", kNumber);
  return numbers.size() == 1 ? json(numbers[0]).dump() : json(numbers).dump();
}

// A text that begins as a JSON list does is one.
json list_in(const std::string& cell, const FieldPlace& given, const char* expected) {
  json list = json::parse(cell, nullptr, /*allow_exceptions=*/false);
  if (list.is_array()) return list;
  throw given.bad(hone::quoted(cell), expected).hint("a text with a list holds JSON, as in [\"a\", \"b\"]");
}

// Of what label_of() wrote; a token cache may have been changed since.
template <class T>
std::vector<T> values_of(const std::string& text) {
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!value.is_array()) value = json::array({value});
  std::vector<T> values;
  for (const json& one : value) {
    const bool fits = std::is_same_v<T, double> ? one.is_number() : one.is_string();
    if (!fits) throw Error(ErrorKind::data, fmt::format("damaged token cache: {} is no label", hone::quoted(text)));
    values.push_back(one.get<T>());
  }
  return values;
}

std::vector<std::string> names_of(const std::string& text, ProblemType problem) {
  if (problem == ProblemType::single_label_classification) return {text};
  return values_of<std::string>(text);
}

std::vector<double> numbers_of(const std::string& text) { return values_of<double>(text); }

}  // namespace

std::string label_of(const json& value, ProblemType problem, const std::string& field, const Place& place) {
  const FieldPlace given{field, place};
  if (value.is_string()) return label_of(value.get_ref<const std::string&>(), problem, field, place);
  if (problem == ProblemType::regression) return numbers_in(value, given);
  if (problem == ProblemType::multi_label_classification) return set_in(value, given);
  return name_in(value, given);
}

std::string label_of(const std::string& given_text, ProblemType problem, const std::string& field, const Place& place) {
  const FieldPlace given{field, place};
  if (problem == ProblemType::single_label_classification) return name_in(given_text, given);
  const std::string text(trim(given_text));
  if (problem == ProblemType::regression)
    return numbers_in(text.starts_with('[') ? list_in(text, given, kNumber) : json(text), given);
  if (text.starts_with('[')) return set_in(list_in(text, given, kSeveral), given);
  std::vector<std::string> names;
  if (!text.empty())
    for (const std::string& name : split(text, ',')) names.push_back(name_in(name, given));
  return set_of(std::move(names), given);
}

void check_cell(const std::string& cell, ProblemType problem, const std::string& field, const Place& place) {
  const auto check = [&](std::string_view one) {
    const std::string text(trim(one));
    const bool digits = std::any_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
    if (!digits || parse_int(text) || !parse_double(text)) return;
    throw FieldPlace{field, place}
        .bad(text, problem == ProblemType::single_label_classification ? kOne : kSeveral)
        .hint("problem_type: regression learns numbers; whole numbers are labels where they have no point, and a name "
              "that looks like a number is one as a text of JSON Lines");
  };
  if (problem == ProblemType::regression) return;
  if (problem == ProblemType::single_label_classification) return check(cell);
  for (const std::string& one : split(cell, ',')) check(one);
}

std::vector<std::string> labels_in(const std::vector<std::string>& texts, ProblemType problem) {
  std::vector<std::string> labels;
  if (problem == ProblemType::regression) {
    const std::size_t count = texts.empty() ? 0 : numbers_of(texts[0]).size();
    for (std::size_t i = 0; i < count; ++i) labels.push_back(fmt::format("LABEL_{}", i));
    return labels;
  }
  std::set<std::string> found;
  for (const std::string& text : texts)
    for (std::string& name : names_of(text, problem)) found.insert(std::move(name));
  labels.assign(found.begin(), found.end());
  sort_labels(labels);
  return labels;
}

void warn_of_alike_labels(const std::vector<std::string>& labels, const std::string& paths) {
  std::map<std::string, std::string> first;  // by what they are in small letters
  for (const std::string& label : labels)
    if (const auto [same, is_new] = first.try_emplace(to_lower(label), label); !is_new && same->second != label)
      log::warning("{}: labels {} and {} differ by case alone: they are two labels", paths, hone::quoted(same->second),
                   hone::quoted(label));
  std::map<std::int64_t, std::string> numbers;
  for (const std::string& label : labels)
    if (const auto number = parse_int(label))
      if (const auto [same, is_new] = numbers.try_emplace(*number, label); !is_new && same->second != label)
        log::warning("{}: labels {} and {} are one number, written in two ways: they are two labels", paths,
                     hone::quoted(same->second), hone::quoted(label));
}

void require_one_kind(const std::vector<std::string>& labels, const std::string& paths) {
  const auto is_number = [](const std::string& label) { return parse_int(label).has_value(); };
  const auto number = std::find_if(labels.begin(), labels.end(), is_number);
  const auto name = std::find_if_not(labels.begin(), labels.end(), is_number);
  if (number == labels.end() || name == labels.end()) return;
  throw Error(ErrorKind::data, fmt::format("{}: mixed kinds of labels: {} and {}; expected names or whole numbers",
                                           paths, hone::quoted(*number), hone::quoted(*name)))
      .hint("objective.labels says them all, where both are meant");
}

namespace {

// The label that a whole number counts, or true or false does, where labels have names that are none; else as it is.
std::string counted_label(const std::string& text, const std::vector<std::string>& labels) {
  const auto is_number = [](const std::string& label) { return parse_int(label).has_value(); };
  const bool known = std::find(labels.begin(), labels.end(), text) != labels.end();
  if (known || std::any_of(labels.begin(), labels.end(), is_number)) return text;
  const bool is_bool = text == "false" || text == "true";
  const std::optional<std::int64_t> place = is_bool ? std::int64_t{text == "true"} : parse_int(text);
  return place && *place >= 0 && *place < std::ssize(labels) ? labels[static_cast<std::size_t>(*place)] : text;
}

}  // namespace

Targets Targets::of_tokens(const std::vector<std::string>& texts, const std::vector<std::string>& labels,
                           const Fail& fail) {
  std::vector<std::string> named;
  for (const std::string& text : texts) named.push_back(counted_label(text, labels));
  return Targets(named, labels, ProblemType::single_label_classification, fail);
}

Targets::Targets(const std::vector<std::string>& texts, const std::vector<std::string>& labels, ProblemType problem,
                 const Fail& fail)
    : width_(labels.size()) {
  std::map<std::string, std::int64_t> index;
  for (const std::string& label : labels) index.emplace(label, std::ssize(index));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (problem == ProblemType::regression) {
      const std::vector<double> numbers = numbers_of(texts[i]);
      if (numbers.size() != width_)
        throw fail(
            i, fmt::format("{}; expected {}: {}", counted(std::ssize(numbers), "number"), width_, list_names(labels)));
      numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
      continue;
    }
    for (const std::string& name : names_of(texts[i], problem)) {
      if (!index.contains(name))
        throw fail(i, fmt::format("label {}; expected one of {}", hone::quoted(name), list_names(labels)));
      labels_.push_back(index.at(name));
    }
    ends_.push_back(labels_.size());
  }
}

std::vector<std::int64_t> Targets::labels(std::size_t text) const {
  if (ends_.empty()) return {};
  const auto begin = static_cast<std::ptrdiff_t>(text == 0 ? 0 : ends_[text - 1]);
  return {labels_.begin() + begin, labels_.begin() + static_cast<std::ptrdiff_t>(ends_[text])};
}

std::vector<double> Targets::numbers(std::size_t text) const {
  std::vector<double> made(width_);
  const auto first = numbers_.begin() + static_cast<std::ptrdiff_t>(numbers_.empty() ? 0 : text * width_);
  if (!numbers_.empty()) std::copy_n(first, width_, made.begin());
  for (const std::int64_t label : labels(text)) made[static_cast<std::size_t>(label)] = 1;
  return made;
}

std::string shown_target(const HostColumn& target, std::size_t doc, const std::vector<std::string>& labels,
                         bool is_regression) {
  if (target.width == 0) return labels[static_cast<std::size_t>(target.values[doc])];
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const double number = target.numbers[doc * labels.size() + i];
    if (is_regression)
      parts.push_back(fmt::format("{}", number));
    else if (number > 0)
      parts.push_back(labels[i]);
  }
  return join(parts, ", ");
}

}  // namespace hone::data
