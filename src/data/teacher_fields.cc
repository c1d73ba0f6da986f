// Log-probabilities of a teacher in the fields of a row.
#include "data/teacher_fields.h"

#include <fmt/format.h>

#include <limits>

#include "base/strings.h"
#include "hone/error.h"

namespace hone::data {
namespace {

using json = nlohmann::ordered_json;

constexpr std::string_view kTokenId = "token_id:";

// The places of a record, one after the other.
class TeacherReader {
 public:
  TeacherReader(const std::string& field, const Place& place) : field_(field), place_(place) {}

  void read(const json& one, const json* ids) {
    const std::size_t before = made_.ids.size();
    if (ids)
      read_numbers(one, *ids);
    else if (one.is_array())
      for (const json& token : one) read_token(token);
    else if (one.is_object())
      for (const auto& [id, said] : one.items())
        add(id_of(id), said.is_object() ? said.value("logprob", json()) : said);
    else if (!one.is_null())
      fail("got " + type_of(one) + ", expected a list of the likeliest tokens");
    made_.counts.push_back(static_cast<std::uint32_t>(made_.ids.size() - before));
  }
  TeacherLogProbs made() { return std::move(made_); }

 private:
  [[noreturn]] void fail(const std::string& fact) const {
    throw Error(ErrorKind::data, fmt::format("{}: field {}: place {}: {}", place_.text(), hone::quoted(field_),
                                             made_.counts.size() + 1, fact));
  }

  void read_numbers(const json& one, const json& ids) {
    const auto count = [](const json& list) { return list.is_array() ? list.size() : 0; };
    if (count(one) != count(ids))
      fail(fmt::format("{} log-probabilities and {} token ids; expected as many", count(one), count(ids)));
    for (std::size_t i = 0; i < count(one); ++i) {
      if (!ids[i].is_number_integer()) fail("got " + shown(ids[i]) + ", expected a token id");
      const bool negative = !ids[i].is_number_unsigned() && ids[i].get<std::int64_t>() < 0;  // Parquet's have a sign
      add(negative ? -1 : as_id(ids[i].get<std::uint64_t>()), one[i]);
    }
  }

  void read_token(const json& token) {
    if (!token.is_object())
      fail("got " + type_of(token) + ", expected {\"token\": \"token_id:17\", \"logprob\": -0.1}, or numbers with the "
           "field target_token_ids");
    const auto name = token.find("token");
    const std::string text = name != token.end() && name->is_string() ? name->get<std::string>() : "";
    if (!text.starts_with(kTokenId)) fail("got " + shown(token) + ", expected a token as token_id:17");
    add(id_of(text.substr(kTokenId.size())), token.value("logprob", json()));
  }

  static std::string shown(const json& value) { return escape_for_terminal(value.dump(), 60); }
  static std::int32_t as_id(std::uint64_t number) {
    return number <= std::numeric_limits<std::int32_t>::max() ? static_cast<std::int32_t>(number) : -1;
  }
  std::int32_t id_of(const std::string& text) const {
    const std::optional<std::int64_t> number = parse_int(text);
    if (!number) fail("got " + hone::quoted(text) + ", expected a token id");
    return *number < 0 ? -1 : as_id(static_cast<std::uint64_t>(*number));
  }

  void add(std::int32_t id, const json& log_prob) {
    if (id < 0) fail("expected token ids of 0 to 2147483647");
    if (!log_prob.is_number()) fail("got " + shown(log_prob) + ", expected a log-probability");
    made_.ids.push_back(id);
    made_.log_probs.push_back(log_prob.get<float>());
  }

  const std::string& field_;
  const Place& place_;
  TeacherLogProbs made_;
};

const json& list_field(const json& value, const std::string& field, const Place& place) {
  const json& list = *find_field(value, field);
  if (list.is_array()) return list;
  throw Error(ErrorKind::data, fmt::format("{}: field {}: got {}, expected a list with a list for each token",
                                           place.text(), hone::quoted(field), type_of(list)));
}

}  // namespace

const std::vector<std::string>& teacher_fields() {
  static const std::vector<std::string> names = {"logprobs", "target_token_ids"};
  return names;
}

TeacherLogProbs read_teacher(const json& value, const Form& form, const Place& place) {
  const json& all = list_field(value, form.logprobs, place);
  const json* ids = form.logprob_ids.empty() ? nullptr : &list_field(value, form.logprob_ids, place);
  if (ids && ids->size() != all.size())
    throw Error(ErrorKind::data,
                fmt::format("{}: {} has {}, and {} has {}; expected as many", place.text(), form.logprob_ids,
                            counted(std::ssize(*ids), "place"), form.logprobs, all.size()));
  TeacherReader reader(form.logprobs, place);
  for (std::size_t i = 0; i < all.size(); ++i) reader.read(all[i], ids ? &(*ids)[i] : nullptr);
  return reader.made();
}

}  // namespace hone::data
