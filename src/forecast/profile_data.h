#pragma once

/// The files of src/forecast/data/, compiled into the library: an object of profiles by name each. Internal.
namespace echelon::forecast {

extern const char kDevicesJson[];
extern const char kNetworksJson[];

}  // namespace echelon::forecast
