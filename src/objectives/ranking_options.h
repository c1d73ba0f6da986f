// Options that objectives of vectors of texts have in common. C: an objective's configuration, with members of these
// names.
#pragma once

#include <tuple>

#include "hone/config.h"

namespace hone::objectives {

inline constexpr const char* kTeacherTemperature =
    "Of distill_kl_div: the teacher's scores are divided by it; large values let all texts count alike; default: "
    "temperature.";

template <class C>
constexpr auto ranking_fields() {
  return std::tuple{
      field("directions", &C::directions,
            "Of multiple_negatives_ranking: what is compared: query_to_doc, which must be among them, "
            "query_to_query, doc_to_query, doc_to_doc."),
      field("partition_mode", &C::partition_mode,
            "Of several directions: whether a query's own document is to be told from what all of them compare it "
            "with (joint), or from that of each, whose losses' mean is learnt (per_direction)."),
      field("hardness_mode", &C::hardness_mode,
            "Of multiple_negatives_ranking: which negatives weigh more, the nearer they are to the query: other "
            "pairs' documents, the record's own negatives, or both; default: none.")};
}

template <class C>
constexpr auto prompt_fields() {
  return std::tuple{
      field("query_prompt", &C::query_prompt,
            "What stands before each query; default: the prompt `query` of the model's folder, else nothing."),
      field("document_prompt", &C::document_prompt,
            "What stands before each document; default: the prompt `document` (or passage) of the folder.")};
}

}  // namespace hone::objectives
