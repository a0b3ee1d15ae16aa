"""Messages of the kubelet's APIs: what scripts/protobuf makes of the .proto files beside this one."""
