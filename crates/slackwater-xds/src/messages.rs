//! The messages of xDS, as far as they are used: fields that are not declared are skipped.
//!
//! Names and numbers are those of `envoy/service/discovery/v3/discovery.proto`,
//! `envoy/config/core/v3/*.proto`, `envoy/config/cluster/v3/cluster.proto`,
//! `envoy/config/endpoint/v3/*.proto`, and those of the policies that are named here.

use bytes::Bytes;
use prost::{Message, Oneof};
use std::collections::BTreeMap;

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Any {
    #[prost(string, tag = "1")]
    pub(crate) type_url: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) value: Bytes,
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Status {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
}

/// `google.protobuf.Duration`.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct Duration {
    #[prost(int64, tag = "1")]
    pub(crate) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(crate) nanos: i32,
}

/// `google.protobuf.UInt32Value`.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct UInt32Value {
    #[prost(uint32, tag = "1")]
    pub(crate) value: u32,
}

/// `google.protobuf.Struct`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Struct {
    #[prost(btree_map = "string, message", tag = "1")]
    pub(crate) fields: BTreeMap<String, Value>,
}

/// `google.protobuf.Value`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Value {
    #[prost(oneof = "Kind", tags = "1, 2, 3, 4, 5, 6")]
    pub(crate) kind: Option<Kind>,
}

/// The kinds of a `google.protobuf.Value`.
#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Kind {
    #[prost(int32, tag = "1")]
    Null(i32),
    #[prost(double, tag = "2")]
    Number(f64),
    #[prost(string, tag = "3")]
    Text(String),
    #[prost(bool, tag = "4")]
    Bool(bool),
    #[prost(message, tag = "5")]
    Struct(Struct),
    #[prost(message, tag = "6")]
    List(ListValue),
}

/// `google.protobuf.ListValue`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListValue {
    #[prost(message, repeated, tag = "1")]
    pub(crate) values: Vec<Value>,
}

/// `envoy.config.core.v3.Node`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Node {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(string, tag = "2")]
    pub(crate) cluster: String,
    #[prost(message, optional, tag = "3")]
    pub(crate) metadata: Option<Struct>,
    #[prost(message, optional, tag = "4")]
    pub(crate) locality: Option<Locality>,
    #[prost(string, tag = "6")]
    pub(crate) user_agent_name: String,
    #[prost(string, tag = "7")]
    pub(crate) user_agent_version: String,
    #[prost(string, repeated, tag = "10")]
    pub(crate) client_features: Vec<String>,
}

/// `envoy.config.core.v3.Locality`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Message)]
pub(crate) struct Locality {
    #[prost(string, tag = "1")]
    pub(crate) region: String,
    #[prost(string, tag = "2")]
    pub(crate) zone: String,
    #[prost(string, tag = "3")]
    pub(crate) sub_zone: String,
}

/// `envoy.service.discovery.v3.DiscoveryRequest`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct DiscoveryRequest {
    #[prost(string, tag = "1")]
    pub(crate) version_info: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) node: Option<Node>,
    #[prost(string, repeated, tag = "3")]
    pub(crate) resource_names: Vec<String>,
    #[prost(string, tag = "4")]
    pub(crate) type_url: String,
    #[prost(string, tag = "5")]
    pub(crate) response_nonce: String,
    #[prost(message, optional, tag = "6")]
    pub(crate) error_detail: Option<Status>,
}

/// `envoy.service.discovery.v3.DiscoveryResponse`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct DiscoveryResponse {
    #[prost(string, tag = "1")]
    pub(crate) version_info: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) resources: Vec<Any>,
    #[prost(string, tag = "4")]
    pub(crate) type_url: String,
    #[prost(string, tag = "5")]
    pub(crate) nonce: String,
    #[prost(message, repeated, tag = "7")]
    pub(crate) resource_errors: Vec<ResourceError>,
}

/// The head of both kinds of response, which is read first: the type and the nonce have the same
/// numbers in both.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct ResponseHead {
    #[prost(string, tag = "4")]
    pub(crate) type_url: String,
    #[prost(string, tag = "5")]
    pub(crate) nonce: String,
}

/// `envoy.service.discovery.v3.DeltaDiscoveryRequest`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeltaDiscoveryRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) node: Option<Node>,
    #[prost(string, tag = "2")]
    pub(crate) type_url: String,
    #[prost(string, repeated, tag = "3")]
    pub(crate) resource_names_subscribe: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    pub(crate) resource_names_unsubscribe: Vec<String>,
    #[prost(btree_map = "string, string", tag = "5")]
    pub(crate) initial_resource_versions: BTreeMap<String, String>,
    #[prost(string, tag = "6")]
    pub(crate) response_nonce: String,
    #[prost(message, optional, tag = "7")]
    pub(crate) error_detail: Option<Status>,
}

/// `envoy.service.discovery.v3.DeltaDiscoveryResponse`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeltaDiscoveryResponse {
    #[prost(string, tag = "1")]
    pub(crate) system_version_info: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) resources: Vec<Resource>,
    #[prost(string, tag = "4")]
    pub(crate) type_url: String,
    #[prost(string, tag = "5")]
    pub(crate) nonce: String,
    #[prost(string, repeated, tag = "6")]
    pub(crate) removed_resources: Vec<String>,
    #[prost(message, repeated, tag = "9")]
    pub(crate) resource_errors: Vec<ResourceError>,
}

/// `envoy.service.discovery.v3.Resource`.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Resource {
    #[prost(string, tag = "1")]
    pub(crate) version: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) any: Option<Any>,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "6")]
    pub(crate) ttl: Option<Duration>,
}

/// `envoy.service.discovery.v3.ResourceError`.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct ResourceError {
    #[prost(message, optional, tag = "1")]
    pub(crate) resource_name: Option<ResourceName>,
    #[prost(message, optional, tag = "2")]
    pub(crate) error_detail: Option<Status>,
}

/// `envoy.service.discovery.v3.ResourceName`.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct ResourceName {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
}

/// `envoy.config.endpoint.v3.ClusterLoadAssignment`.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct ClusterLoadAssignment {
    #[prost(string, tag = "1")]
    pub(crate) cluster_name: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) endpoints: Vec<LocalityLbEndpoints>,
    #[prost(message, optional, tag = "4")]
    pub(crate) policy: Option<Policy>,
}

/// The name of a resource alone, which has the same number in both types.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct NameAlone {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
}

/// `envoy.config.cluster.v3.Cluster`.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Cluster {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(oneof = "ClusterKind", tags = "2, 38")]
    pub(crate) kind: Option<ClusterKind>,
    #[prost(message, optional, tag = "3")]
    pub(crate) eds_cluster_config: Option<EdsClusterConfig>,
    #[prost(int32, tag = "6")]
    pub(crate) lb_policy: i32,
    /// A [`ClusterLoadAssignment`], which is read only if the cluster's type needs it.
    #[prost(bytes = "bytes", optional, tag = "33")]
    pub(crate) load_assignment: Option<Bytes>,
    /// A [`LoadBalancingPolicy`], whose entries are counted first.
    #[prost(bytes = "bytes", optional, tag = "41")]
    pub(crate) load_balancing_policy: Option<Bytes>,
}

/// `envoy.config.cluster.v3.LoadBalancingPolicy`.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct LoadBalancingPolicy {
    #[prost(message, repeated, tag = "1")]
    pub(crate) policies: Vec<PolicyEntry>,
}

/// `envoy.config.cluster.v3.LoadBalancingPolicy.Policy`.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct PolicyEntry {
    #[prost(message, optional, tag = "4")]
    pub(crate) typed_extension_config: Option<TypedExtensionConfig>,
}

/// `envoy.config.core.v3.TypedExtensionConfig`.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct TypedExtensionConfig {
    #[prost(message, optional, tag = "2")]
    pub(crate) typed_config: Option<Any>,
}

/// `xds.type.v3.TypedStruct`, which has the same fields as `udpa.type.v1.TypedStruct`.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct TypedStruct {
    #[prost(string, tag = "1")]
    pub(crate) type_url: String,
    /// A [`Struct`], which is read only if the type is known.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub(crate) value: Option<Bytes>,
}

/// `envoy.extensions.load_balancing_policies.wrr_locality.v3.WrrLocality`.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct WrrLocality {
    /// A [`LoadBalancingPolicy`].
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub(crate) endpoint_picking_policy: Option<Bytes>,
}

/// How the endpoints of a cluster are found.
#[derive(Clone, PartialEq, Eq, Oneof)]
pub(crate) enum ClusterKind {
    #[prost(int32, tag = "2")]
    Type(i32),
    #[prost(message, tag = "38")]
    Custom(CustomClusterType),
}

/// `envoy.config.cluster.v3.Cluster.CustomClusterType`.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct CustomClusterType {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
}

/// `envoy.config.cluster.v3.Cluster.EdsClusterConfig`.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct EdsClusterConfig {
    #[prost(message, optional, tag = "1")]
    pub(crate) eds_config: Option<ConfigSource>,
    #[prost(string, tag = "2")]
    pub(crate) service_name: String,
}

/// `envoy.config.core.v3.ConfigSource`.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct ConfigSource {
    #[prost(oneof = "ConfigSpecifier", tags = "1, 2, 3, 5, 8")]
    pub(crate) specifier: Option<ConfigSpecifier>,
}

/// Where a configuration comes from. The messages are not read.
#[derive(Clone, PartialEq, Eq, Oneof)]
pub(crate) enum ConfigSpecifier {
    #[prost(bytes = "bytes", tag = "1")]
    Path(Bytes),
    #[prost(bytes = "bytes", tag = "2")]
    Api(Bytes),
    #[prost(bytes = "bytes", tag = "3")]
    Ads(Bytes),
    #[prost(bytes = "bytes", tag = "5")]
    SameServer(Bytes),
    #[prost(bytes = "bytes", tag = "8")]
    PathSource(Bytes),
}

/// `envoy.config.endpoint.v3.ClusterLoadAssignment.Policy`.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Policy {
    #[prost(message, repeated, tag = "2")]
    pub(crate) drop_overloads: Vec<DropOverload>,
}

/// `envoy.config.endpoint.v3.ClusterLoadAssignment.Policy.DropOverload`.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct DropOverload {
    #[prost(string, tag = "1")]
    pub(crate) category: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) drop_percentage: Option<FractionalPercent>,
}

/// `envoy.type.v3.FractionalPercent`.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct FractionalPercent {
    #[prost(uint32, tag = "1")]
    pub(crate) numerator: u32,
}

/// `envoy.config.endpoint.v3.LocalityLbEndpoints`.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct LocalityLbEndpoints {
    #[prost(message, optional, tag = "1")]
    pub(crate) locality: Option<Locality>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) lb_endpoints: Vec<LbEndpoint>,
    #[prost(message, optional, tag = "3")]
    pub(crate) load_balancing_weight: Option<UInt32Value>,
    #[prost(uint32, tag = "5")]
    pub(crate) priority: u32,
    /// A message, which is not read: it leads to another discovery service.
    #[prost(bytes = "bytes", optional, tag = "8")]
    pub(crate) leds_cluster_locality_config: Option<Bytes>,
}

/// `envoy.config.endpoint.v3.LbEndpoint`.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct LbEndpoint {
    #[prost(message, optional, tag = "1")]
    pub(crate) endpoint: Option<Endpoint>,
    #[prost(int32, tag = "2")]
    pub(crate) health_status: i32,
    /// A [`Metadata`], which is read only if it is small.
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub(crate) metadata: Option<Bytes>,
    #[prost(message, optional, tag = "4")]
    pub(crate) load_balancing_weight: Option<UInt32Value>,
}

/// `envoy.config.endpoint.v3.Endpoint`.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Endpoint {
    #[prost(message, optional, tag = "1")]
    pub(crate) address: Option<Address>,
}

/// `envoy.config.core.v3.Address`.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Address {
    #[prost(message, optional, tag = "1")]
    pub(crate) socket_address: Option<SocketAddress>,
}

/// `envoy.config.core.v3.SocketAddress`.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct SocketAddress {
    #[prost(int32, tag = "1")]
    pub(crate) protocol: i32,
    #[prost(string, tag = "2")]
    pub(crate) address: String,
    #[prost(uint32, optional, tag = "3")]
    pub(crate) port_value: Option<u32>,
}

/// `envoy.config.core.v3.Metadata`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Metadata {
    #[prost(btree_map = "string, message", tag = "1")]
    pub(crate) filter_metadata: BTreeMap<String, Struct>,
}
