// Fields of messages beside what is said in them: those that neither hone nor the chat template reads are named as
// a record's own are.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace hone::data {

class Tokenising;

// Adds those that hone itself does not read of the messages in the fields `used`, as "messages[].masked"; each that is
// not yet among `told`, which it then is. A value that says nothing (null, an empty list) is not lost.
void add_message_fields(const nlohmann::ordered_json& record, const std::vector<std::string>& used,
                        std::set<std::string>& told, std::vector<std::string>& unread);

// Takes those of them out that the chat template reads. REQUIRES: there is one where any is among them.
void without_read_by_template(std::vector<std::string>& unread, const Tokenising& how);

}  // namespace hone::data
